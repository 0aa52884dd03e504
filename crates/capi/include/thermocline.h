// Pools of Thermocline for C. Made by cbindgen of crates/capi/src/lib.rs: change that file instead.

#ifndef THERMOCLINE_H
#define THERMOCLINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// How a call ended.
typedef enum thermocline_result {
  // Done.
  THERMOCLINE_RESULT_OK = 0,
  // An argument is null, or a name is no UTF-8.
  THERMOCLINE_RESULT_ARGUMENT = 1,
  // The settings cannot be read, contradict themselves, or contradict the devices.
  THERMOCLINE_RESULT_SETTINGS = 2,
  // The devices hold no pool.
  THERMOCLINE_RESULT_NO_POOL = 3,
  // Another process has the pool open.
  THERMOCLINE_RESULT_IN_USE = 4,
  // A device of the pool is missing, or cannot be used as it is.
  THERMOCLINE_RESULT_DEVICE = 5,
  // The pool is damaged.
  THERMOCLINE_RESULT_DAMAGED = 6,
  // The pool has no such volume.
  THERMOCLINE_RESULT_NO_VOLUME = 7,
  // The range ends beyond the volume.
  THERMOCLINE_RESULT_OUT_OF_RANGE = 8,
  // The pool is full.
  THERMOCLINE_RESULT_NO_SPACE = 9,
  // A device failed a transfer, or a block cannot be read.
  THERMOCLINE_RESULT_IO = 10,
  // Another error.
  THERMOCLINE_RESULT_OTHER = 11,
} thermocline_result;

// An open pool.
typedef struct thermocline_pool_t thermocline_pool_t;

// A volume of a pool. Every thread may use it.
typedef struct thermocline_volume_t thermocline_volume_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens the pool of a settings file. On success `*pool` is the open pool, for `thermocline_close`.
//
// # Safety
// `settings` is a C string, and `pool` can be written.
enum thermocline_result thermocline_open(const char *settings, struct thermocline_pool_t **pool);

// Finds the volume called `name`. On success `*volume` is the volume, until the pool is closed.
//
// # Safety
// `pool` is open, `name` is a C string, and `volume` can be written.
enum thermocline_result thermocline_volume(const struct thermocline_pool_t *pool,
                                           const char *name,
                                           const struct thermocline_volume_t **volume);

// Fills `buffer` with `length` bytes from byte `offset` on.
//
// # Safety
// `volume` is of an open pool, and `length` bytes at `buffer` can be written.
enum thermocline_result thermocline_read(const struct thermocline_volume_t *volume,
                                         uint64_t offset,
                                         uint8_t *buffer,
                                         size_t length);

// Writes `length` bytes of `data` from byte `offset` on.
//
// # Safety
// `volume` is of an open pool, and `length` bytes at `data` can be read.
enum thermocline_result thermocline_write(const struct thermocline_volume_t *volume,
                                          uint64_t offset,
                                          const uint8_t *data,
                                          size_t length);

// Gives the space of whole blocks of 4096 bytes among `length` bytes from byte `offset` on back.
//
// # Safety
// `volume` is of an open pool.
enum thermocline_result thermocline_trim(const struct thermocline_volume_t *volume,
                                         uint64_t offset,
                                         uint64_t length);

// Makes every completed write of the volume durable.
//
// # Safety
// `volume` is of an open pool.
enum thermocline_result thermocline_flush(const struct thermocline_volume_t *volume);

// Closes the pool in order, and frees it and its volumes, also when this fails.
//
// # Safety
// `pool` is open, and no other call uses it or a volume of it, now or later.
enum thermocline_result thermocline_close(struct thermocline_pool_t *pool);

// The text of the last error of this thread, until its next error. Empty if there was none.
const char *thermocline_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* THERMOCLINE_H */
