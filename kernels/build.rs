//! Compiles the kernels, where the feature `cuda` asks for them.
//!
//! ```text
//! IMAGES        <name>.cu ─► OUT_DIR/<name>.fatbin          embedded by lib.rs, loaded by the driver
//! ALGORITHMS    <name>.cu ─► OUT_DIR/libtaiga_algorithms.a  CUB's device-wide sorts and scans, with the
//!                                                           CUDA runtime linked statically
//! ```
//!
//! nvcc is taken from, in this order: the variable `NVCC`; `PATH`; the Python packages
//! `nvidia-cuda-nvcc` and its companions in `$VIRTUAL_ENV` or in the repository's `.venv`. It calls
//! the host's C++ compiler, so there must be one.

mod shared_structs;

use shared_structs::SharedStructs;
use std::env;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Kernels that the driver loads; each source becomes an image of its own.
const IMAGES: [&str; 14] = [
    "columns/borders.cu",
    "columns/categories.cu",
    "columns/codes.cu",
    "columns/combine.cu",
    "columns/range.cu",
    "columns/stats.cu",
    "columns/stats2d.cu",
    "columns/target_encode.cu",
    "forest.cu",
    "linear.cu",
    "numerics.cu",
    "predict.cu",
    "trees.cu",
    "trees/ctr.cu",
];

/// Host code over CUB's device-wide algorithms: one static library.
const ALGORITHMS: [&str; 4] = ["columns/target_encode/scan.cu", "runtime/distinct.cu", "runtime/scan.cu", "runtime/sort.cu"];

/// Machine code for fewer architectures than [`ARCHITECTURES`], such as `90` or `90,100`: quicker
/// while one works on a kernel. GPUs of others compile the PTX when they load it.
const LIMIT: &str = "TAIGA_CUDA_ARCHITECTURES";

/// Machine code is made for these where nvcc knows them: Turing, Ampere (two), Ada, Hopper,
/// Blackwell (two). Machine code of a generation runs on its later members too (8.0 on 8.7, 10.0
/// on 10.3).
const ARCHITECTURES: [&str; 7] = ["75", "80", "86", "89", "90", "100", "120"];

/// PTX of the oldest, which the driver compiles for whatever GPU has no machine code here.
const PTX: &str = "75";

/// Machine code that the driver unpacks when it loads it: the wheel is little more than half as large.
const COMPRESSED: &str = "--compress-mode=size";

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
    // A directory stands for all files in it.
    for path in ["build.rs", "."] {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in ["NVCC", "VIRTUAL_ENV", LIMIT] {
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
    let targets = targets(&nvcc)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let headers = headers(Path::new("."))?;
    write_shared_structs(&headers, &out)?;
    for source in IMAGES {
        let mut command = Command::new(&nvcc);
        command.args(["-fatbin", "-std=c++17", "-O3", "-Werror=all-warnings", "--threads=0"]);
        command.arg(COMPRESSED).args(EXACT).args(&targets).arg(source);
        let image = out.join(source).with_extension("fatbin");
        let folder = image.parent().unwrap_or(&out);
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        make(command, &image, &[source], &headers, &out)?;
    }
    let mut command = Command::new(&nvcc);
    command.args(["-lib", "-std=c++17", "-O3", "-Xcompiler=-fPIC", "--threads=0", COMPRESSED]);
    command.args(EXACT).args(&targets).args(ALGORITHMS);
    make(command, &out.join("libtaiga_algorithms.a"), &ALGORITHMS, &headers, &out)?;
    link(&nvcc, &out)
}

/// Writes what kernels and host assert of the structs that they share.
fn write_shared_structs(headers: &[PathBuf], out: &Path) -> Result<(), String> {
    let write = |name: &str, text: &str| std::fs::write(out.join(name), text).map_err(|e| format!("{name}: {e}"));
    let shared = SharedStructs::read(headers)?;
    std::fs::create_dir_all(out.join("asserted")).map_err(|e| format!("{}: {e}", out.display()))?;
    for (folder, text) in &shared.asserted {
        write(&format!("asserted/{folder}.cuh"), text)?;
    }
    write("shared_structs.rs", &shared.twins)
}

/// The options that say which architectures to compile for.
fn targets(nvcc: &Path) -> Result<Vec<String>, String> {
    let known = run(Command::new(nvcc).arg("--list-gpu-code"))?;
    let limit = env::var(LIMIT).unwrap_or_default();
    let limit: Vec<&str> = limit.split(',').map(str::trim).filter(|a| !a.is_empty()).collect();
    if let Some(a) = limit.iter().find(|a| !ARCHITECTURES.contains(a)) {
        return Err(format!("{LIMIT}: {a:?} is none of {ARCHITECTURES:?}"));
    }
    let mut targets = vec![format!("-gencode=arch=compute_{PTX},code=compute_{PTX}")];
    for a in ARCHITECTURES.into_iter().filter(|a| limit.is_empty() || limit.contains(a)) {
        if known.split_whitespace().any(|k| k == format!("sm_{a}")) {
            targets.push(format!("-gencode=arch=compute_{a},code=sm_{a}"));
        } else {
            println!("cargo::warning={} does not know sm_{a}: such GPUs will compile the kernels when they load them", nvcc.display());
        }
    }
    Ok(targets)
}

/// Every header, since any source may include any.
fn headers(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            found.extend(headers(&path)?);
        } else if path.extension().is_some_and(|e| e == "cuh" || e == "def") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs `command` for `output`, unless the same command has made it from the same files before: what is
/// made is kept for all builds of a target directory (the plugin's, the tests', clippy's), since it takes
/// minutes. What is written of the headers lies in `out`.
fn make(mut command: Command, output: &Path, sources: &[&str], headers: &[PathBuf], out: &Path) -> Result<(), String> {
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{command:?}").as_bytes());
    let own = [Path::new("shared_structs.rs")];
    for file in sources.iter().map(Path::new).chain(headers.iter().map(PathBuf::as_path)).chain(own) {
        hasher.write(&std::fs::read(file).map_err(|e| failed(file, e))?);
    }
    // OUT_DIR is <target>/<profile>/build/<package>/out.
    let kept = output.ancestors().nth(5).unwrap_or(Path::new(".")).join("cuda");
    std::fs::create_dir_all(&kept).map_err(|e| failed(&kept, e))?;
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let made = kept.join(format!("{:016x}-{name}", hasher.finish()));
    if !made.is_file() {
        // Under a name of its own until it is whole: another build may be at it too.
        let partial = kept.join(format!("{}-{name}", std::process::id()));
        run(command.arg("-I").arg(out).arg("-o").arg(&partial))?;
        std::fs::rename(&partial, &made).map_err(|e| failed(&made, e))?;
    }
    std::fs::copy(&made, output).map(|_| ()).map_err(|e| failed(output, e))
}

/// What the static library needs: the CUDA runtime, which looks for the driver at run time, and
/// the C++ library.
fn link(nvcc: &Path, out: &Path) -> Result<(), String> {
    let root = nvcc.canonicalize().ok().and_then(|p| Some(p.parent()?.parent()?.to_path_buf())).ok_or("nvcc lies in no folder")?;
    let folders = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"].map(|f| root.join(f));
    let runtime = folders.iter().find(|f| f.join("libcudart_static.a").is_file());
    let runtime = runtime.ok_or_else(|| format!("no libcudart_static.a was found under {}.\n{INSTALL}", root.display()))?;
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-search=native={}", runtime.display());
    println!("cargo::rustc-link-lib=static=taiga_algorithms");
    println!("cargo::rustc-link-lib=static=cudart_static");
    for library in ["stdc++", "pthread", "dl", "rt"] {
        println!("cargo::rustc-link-lib=dylib={library}");
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
