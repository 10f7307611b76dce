//! Checks the crates of lock files against RustSec's database of advisories: `taiga-advisories DATABASE Cargo.lock …`.
//!
//! Vulnerabilities, unsound crates and those with a notice of their own end it with exit code 1, each named with its
//! version and the versions without the fault; crates that nobody maintains any longer are listed alone. The database is a
//! snapshot in this repository, since what builds here may reach no more than the registries of packages.

use rustsec::advisory::Informational;
use rustsec::report::Settings;
use rustsec::{Database, Lockfile, Report};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let database = paths.next().ok_or("say where the database is, and then which lock files to check")?;
    let database = Database::open(&database)?;
    let advisories = database.iter().count();
    if advisories < 500 {
        return Err(format!("the database has {advisories} advisories alone: it is not whole").into());
    }
    let informational_warnings = vec![Informational::Unmaintained, Informational::Unsound, Informational::Notice];
    let settings = Settings { informational_warnings, ..Settings::default() };
    let mut faults = 0;
    for path in paths {
        let lockfile = Lockfile::load(&path)?;
        let report = Report::generate(&database, &lockfile, &settings);
        for found in &report.vulnerabilities.list {
            let package = &found.package;
            let (id, title) = (&found.advisory.id, &found.advisory.title);
            let patched: Vec<String> = found.versions.patched().iter().map(ToString::to_string).collect();
            println!("{}: {} {}: {id} {title}; without the fault: {patched:?}", path.display(), package.name, package.version);
            faults += 1;
        }
        for (kind, warnings) in &report.warnings {
            for warning in warnings {
                let told = warning.advisory.as_ref().map_or(String::new(), |a| format!("{} {}", a.id, a.title));
                let package = &warning.package;
                println!("{}: {} {}: {}: {told}", path.display(), package.name, package.version, kind.as_str());
                faults += u32::from(kind.as_str() != "unmaintained");
            }
        }
        println!("{}: {} crates against {advisories} advisories", path.display(), lockfile.packages.len());
    }
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
