//! `thermocline format`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use thermocline_runtime::opening::{create, short_of_fast};
use thermocline_runtime::{Contents, Settings, new_pool_id, unit_bytes};
use thermocline_serve::Serving;
use thermocline_types::Bytes;

use super::advice::MORE_FAST;
use super::open::{Advised as _, advised};
use super::{CODES, print};

/// Arguments of `format`.
#[derive(Args)]
#[command(after_help = format!("\
The settings file says where the pool is and how it works; --example prints one with every key explained.

Examples:
  thermocline format --example > pool.toml
  thermocline format pool.toml
  thermocline format pool.toml --yes-destroy=pool.img

{CODES}"))]
pub struct FormatArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml", required_unless_present = "example")]
    settings: Option<PathBuf>,
    /// Destroy what is there: name the pool by its identity, or the file or device by its path; once for each
    #[arg(long, value_name = "ID or PATH")]
    yes_destroy: Vec<String>,
    /// Print a settings file with every key explained, and do nothing
    #[arg(long, conflicts_with = "yes_destroy")]
    example: bool,
}

/// `thermocline format`.
pub fn format(args: &FormatArgs) -> anyhow::Result<ExitCode> {
    let Some(path) = args.settings.as_ref().filter(|_| !args.example) else {
        return print(&Settings::example());
    };
    let settings = Settings::load(path)?;
    if let Some(server) = Serving::of(path) {
        bail!("{server} serves this pool: stop it first, if the pool is to be destroyed");
    }
    for one in settings.each_device() {
        refuse_to_destroy(&one, &args.yes_destroy)?;
    }
    let pool = new_pool_id().context("the system gives no random numbers")?;
    let opened = create(&settings, pool).map_err(|error| advised(settings.file(), error))?;
    let geometry = opened.config.geometry;
    let listed = opened.driver.engine().volumes();
    let holds = opened.holds();
    let short = short_of_fast(&opened.config, &opened.sizes());
    opened.close()?;
    let paths = settings.devices.iter().map(|device| device.path.display().to_string());
    let mut text = format!(
        "pool {pool} on {}\n{} units of {}, logical blocks of {} bytes; holds {holds} of data\n",
        paths.collect::<Vec<_>>().join(", "),
        geometry.units(),
        unit_bytes(&geometry),
        geometry.logical_block().bytes(),
    );
    for volume in listed {
        text += &format!("volume `{}` of {}\n", volume.name, Bytes(volume.blocks * 4096));
    }
    let printed = print(&text);
    if let Some(short) = short {
        eprintln!("warning: {short}: {MORE_FAST}");
    }
    printed
}

/// Refuses if the device has contents whose destruction the caller did not confirm by name.
fn refuse_to_destroy(settings: &Settings, named: &[String]) -> anyhow::Result<()> {
    let device = &settings.device().path;
    let path = device.display().to_string();
    let (what, id) = match settings.contents()? {
        Contents::Nothing => return Ok(()),
        Contents::Pool(pool) => (format!("the pool {pool}"), Some(pool.to_string())),
        Contents::Known(what) => (what.to_owned(), None),
        Contents::Unknown => ("data".to_owned(), None),
    };
    let is_named = |name: &String| {
        let same = Path::new(name).canonicalize().ok();
        let same = same.is_some_and(|path| device.canonicalize().ok() == Some(path));
        same || *name == path || id.as_ref() == Some(name)
    };
    if named.iter().any(is_named) {
        return Ok(());
    }
    if !named.is_empty() {
        let named = named.join(" and ");
        bail!("{path} holds {what}; --yes-destroy names {named}, which is not that");
    }
    let name = id.as_deref().unwrap_or(&path);
    bail!(
        "{path} holds {what}; for another pool beside it, give another device.path; to destroy what is there, say \
         --yes-destroy={name}"
    )
}
