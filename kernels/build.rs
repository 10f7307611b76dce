//! Compiles the kernels into fat binaries, where the feature `cuda` asks for them.
//!
//! nvcc is taken from, in this order: the variable `NVCC`; `PATH`; the Python packages
//! `nvidia-cuda-nvcc` and its companions in `$VIRTUAL_ENV` or in the repository's `.venv`. It calls
//! the host's C++ compiler to preprocess, so there must be one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The kernels' sources; each becomes `OUT_DIR/<name>.fatbin`.
const SOURCES: [&str; 1] = ["numerics.cu"];

/// What they include.
const HEADERS: [&str; 5] = ["numerics.cuh", "numerics/math.cuh", "numerics/random.cuh", "numerics/statistics.cuh", "numerics/loss.cuh"];

/// Machine code is made for these where nvcc knows them: Turing, Ampere (two), Ada, Hopper,
/// Blackwell (two). Machine code of a generation runs on its later members too (8.0 on 8.7, 10.0
/// on 10.3).
const ARCHITECTURES: [&str; 7] = ["75", "80", "86", "89", "90", "100", "120"];

/// PTX of the oldest, which the driver compiles for whatever GPU has no machine code here.
const PTX: &str = "75";

/// What the numeric contract needs (docs/numerics.md): no contraction of a multiplication and an
/// addition, no flush to zero, divisions and roots rounded as IEEE 754 says.
const EXACT: [&str; 4] = ["-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true"];

const INSTALL: &str = "The feature `cuda` of taiga-kernels needs NVIDIA's compiler nvcc, 13.0 or newer. Either
  - run `make kernels`, or
  - pip install 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-runtime==13.0.*'
    into the active virtual environment or the repository's .venv (271 MB), or
  - install the CUDA toolkit and put nvcc on PATH, or name it: NVCC=/usr/local/cuda/bin/nvcc.
Without the feature nothing here needs CUDA.";

fn main() {
    for file in SOURCES.iter().chain(&HEADERS).chain(&["build.rs"]) {
        println!("cargo::rerun-if-changed={file}");
    }
    for variable in ["NVCC", "VIRTUAL_ENV"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(message) = compile() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn compile() -> Result<(), String> {
    let nvcc = find_nvcc()?;
    let known = run(Command::new(&nvcc).arg("--list-gpu-code"))?;
    let mut targets = vec![format!("-gencode=arch=compute_{PTX},code=compute_{PTX}")];
    for a in ARCHITECTURES {
        if known.split_whitespace().any(|k| k == format!("sm_{a}")) {
            targets.push(format!("-gencode=arch=compute_{a},code=sm_{a}"));
        } else {
            println!("cargo::warning={} does not know sm_{a}: such GPUs will compile the kernels when they load them", nvcc.display());
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for source in SOURCES {
        let image = out.join(source).with_extension("fatbin");
        let mut command = Command::new(&nvcc);
        command.args(["-fatbin", "-std=c++17", "-O3", "-Werror=all-warnings", "--threads=0"]);
        command.args(EXACT).args(&targets).arg("-o").arg(&image).arg(source);
        run(&mut command)?;
    }
    Ok(())
}

/// The output of a command that succeeds.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}\n{INSTALL}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{command:?} failed ({}):\n{}{}", output.status, text(&output.stdout), text(&output.stderr)))
}

fn find_nvcc() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("NVCC").filter(|n| !n.is_empty()) {
        let named = PathBuf::from(named);
        return if named.is_file() { Ok(named) } else { Err(format!("NVCC names {}, which is no file.\n{INSTALL}", named.display())) };
    }
    let on_path = env::var_os("PATH").into_iter().flat_map(|p| env::split_paths(&p).collect::<Vec<_>>()).map(|d| d.join("nvcc"));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv");
    let environments = env::var_os("VIRTUAL_ENV").map(PathBuf::from).into_iter().chain([repository]);
    let packaged = environments.flat_map(|e| site_packages(&e)).map(|s| s.join("nvidia/cu13/bin/nvcc"));
    on_path.chain(packaged).find(|p| p.is_file()).ok_or_else(|| format!("No nvcc was found.\n{INSTALL}"))
}

/// `lib/python3.*/site-packages` of a virtual environment, in a fixed order.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|e| e.path().join("site-packages")).filter(|p| p.is_dir()).collect();
    found.sort();
    found
}
