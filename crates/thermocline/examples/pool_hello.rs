//! A pool in a file: written, closed, and read again.

use thermocline::Pool;

const SETTINGS: &str =
    "device = { path = 'pool.img', size = '256MiB' }\nvolumes = [{ name = 'main' }]";

fn main() -> Result<(), thermocline::Error> {
    std::fs::write("pool.toml", SETTINGS).expect("this folder can be written");
    let pool = Pool::create("pool.toml")?;
    let volume = pool.volume("main")?;
    volume.write_at(0, b"hello")?;
    volume.flush()?;
    pool.close()?;

    let mut word = [0; 5];
    Pool::open("pool.toml")?.volume("main")?.read_at(0, &mut word)?;
    println!("{}", String::from_utf8_lossy(&word));
    Ok(())
}
