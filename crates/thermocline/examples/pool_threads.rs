//! Four threads with a volume: handles are cheap clones.

use std::thread;

use thermocline::Pool;

const SETTINGS: &str =
    "device = { path = 'pool.img', size = '256MiB' }\nvolumes = [{ name = 'main' }]";

fn main() -> Result<(), thermocline::Error> {
    std::fs::write("pool.toml", SETTINGS).expect("this folder can be written");
    let pool = Pool::create("pool.toml")?;
    let volume = pool.volume("main")?;
    let write = |thread: u64| {
        (0..256).try_for_each(|n| volume.write_at((n * 4 + thread) << 12, &[7; 4096]))
    };
    let write = &write;
    thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|thread| scope.spawn(move || write(thread))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("no thread panics"))
    })?;
    volume.flush()?;
    println!("{} written to `{}`", 4 * 256 * 4096, volume.name());
    pool.close()
}
