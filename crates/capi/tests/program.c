// Writes a pool, closes it, and reads it again.

#include <stdio.h>
#include <string.h>

#include "thermocline.h"

#define TEXT "hello from C"

static int check(thermocline_result result, const char *what) {
    if (result != THERMOCLINE_RESULT_OK) {
        fprintf(stderr, "%s: %d: %s\n", what, (int)result, thermocline_error());
        return 1;
    }
    return 0;
}

int main(int count, char **words) {
    thermocline_pool_t *pool = NULL;
    const thermocline_volume_t *volume = NULL;
    char read[sizeof TEXT] = {0};
    if (count != 2) return 2;

    if (check(thermocline_open(words[1], &pool), "open")) return 1;
    if (thermocline_volume(pool, "none", &volume) != THERMOCLINE_RESULT_NO_VOLUME) return 3;
    if (strstr(thermocline_error(), "none") == NULL) return 4;
    if (check(thermocline_volume(pool, "main", &volume), "volume")) return 1;
    if (check(thermocline_write(volume, 4090, (const uint8_t *)TEXT, strlen(TEXT)), "write")) return 1;
    if (check(thermocline_write(volume, 1 << 20, (const uint8_t *)TEXT, strlen(TEXT)), "write")) return 1;
    if (check(thermocline_trim(volume, 1 << 20, 4096), "trim")) return 1;
    if (check(thermocline_flush(volume), "flush")) return 1;
    if (thermocline_write(volume, UINT64_MAX, (const uint8_t *)TEXT, 1) != THERMOCLINE_RESULT_OUT_OF_RANGE) return 5;
    if (check(thermocline_close(pool), "close")) return 1;

    if (check(thermocline_open(words[1], &pool), "open again")) return 1;
    if (check(thermocline_volume(pool, "main", &volume), "volume")) return 1;
    if (check(thermocline_read(volume, 1 << 20, (uint8_t *)read, strlen(TEXT)), "read")) return 1;
    if (read[0] != 0) return 6;
    if (check(thermocline_read(volume, 4090, (uint8_t *)read, strlen(TEXT)), "read")) return 1;
    if (check(thermocline_close(pool), "close")) return 1;
    if (thermocline_open(NULL, &pool) != THERMOCLINE_RESULT_ARGUMENT) return 7;
    puts(read);
    return 0;
}
