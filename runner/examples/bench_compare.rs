//! How fast the comparator is, beside `torch.testing.assert_close` and numpy on the same files, in
//! one run, so that the ratio means something on any machine. Both are asked the same question, with
//! the same tolerances, and must give the same verdict.
//!
//! `cargo run --release --example bench_compare -- PYTHON [MIB] [FIGURES.json]`: PYTHON is an
//! interpreter with torch, numpy and safetensors. Each time is the best of several, taken by turns.
//! Figures go to stdout as a table, and as a list of {name, value, unit, goal, met} to the file.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use half::{bf16, f16};
use protocol::worker_link::ToCompare;
use runner::compare::{ToleranceTable, compare_outputs};
use serde_json::{Value, json};

const ROUNDS: usize = 3;
/// How often both sides take turns of so many rounds: what else a machine does must not fall on one.
const TURNS: usize = 4;
const SMALL_PAIRS: usize = 10_000;

/// What Python does with the same two files; prints seconds of the best round as JSON.
const PYTHON: &str = r#"
import json, sys, time
import numpy as np, torch
from safetensors import safe_open
actual, expected, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(int(sys.argv[4]))
def load(path):
    with safe_open(path, framework="pt") as file:
        return file.get_tensor("0")
a, e = load(actual), load(expected)
def best(work, clock=time.perf_counter):
    times = []
    for _ in range(rounds):
        start = clock(); work(); times.append(clock() - start)
    return min(times)
def close():
    try:
        torch.testing.assert_close(a, e)
    except AssertionError:
        return False
    return True
out = {"close": close(), "assert_close": best(close), "assert_close_cpu": best(close, time.process_time)}
if a.dtype == torch.float32:
    an, en = a.numpy(), e.numpy()
    out["numpy_allclose"] = best(lambda: np.allclose(an, en, rtol=1.3e-6, atol=1e-5))
flat = a.view(torch.uint8).numpy().view(np.uint64)
out["read"] = best(lambda: flat.max())
small = [(torch.rand(8), ) for _ in range(2000)]
start = time.perf_counter()
for (t,) in small:
    torch.testing.assert_close(t, t.clone())
out["small_pair"] = (time.perf_counter() - start) / len(small)
print(json.dumps(out))
"#;

/// How far the actual numbers of a pair are from the expected ones, at most.
#[derive(Clone, Copy)]
enum Noise {
    /// As a part of each number.
    Relative(f64),
    /// The same for all, however small: many units in the last place of the small ones.
    Absolute(f64),
}

impl Noise {
    fn add(self, value: f64, random: f64) -> f64 {
        match self {
            Self::Relative(part) => value * (1.0 + part * random),
            Self::Absolute(step) => value + step * random,
        }
    }
}

struct Large {
    name: &'static str,
    dtype: &'static str,
    stored: &'static str,
    noise: Noise,
    goal: f64,
}

const LARGE: &[Large] = &[
    Large {
        name: "float32 that agrees, relative noise",
        dtype: "float32",
        stored: "F32",
        noise: Noise::Relative(1e-6),
        goal: 10.0,
    },
    Large {
        name: "float32 that agrees, absolute noise",
        dtype: "float32",
        stored: "F32",
        noise: Noise::Absolute(1e-6),
        goal: 10.0,
    },
    Large {
        name: "float32 that differs",
        dtype: "float32",
        stored: "F32",
        noise: Noise::Relative(1e-3),
        goal: 10.0,
    },
    Large {
        name: "bfloat16 that agrees",
        dtype: "bfloat16",
        stored: "BF16",
        noise: Noise::Relative(1e-3),
        goal: 5.0,
    },
    Large {
        name: "float16 that agrees",
        dtype: "float16",
        stored: "F16",
        noise: Noise::Relative(2e-4),
        goal: 5.0,
    },
];

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    goal: f64,
    met: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(python) = arguments.first() else {
        eprintln!("usage: bench_compare PYTHON [MIB] [FIGURES.json]");
        return ExitCode::from(2);
    };
    let mebibytes = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(256);
    match run(python, mebibytes, arguments.get(2).map(PathBuf::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn run(python: &str, mebibytes: usize, figures_path: Option<PathBuf>) -> Result<(), Failure> {
    let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(exchange())?;
    let table = ToleranceTable::embedded();
    let mut figures = Vec::new();
    let mut small_pair = f64::MAX;
    for Large { name, dtype, stored, noise, goal } in LARGE {
        let request = large_pair(directory.path(), dtype, stored, noise, mebibytes << 20)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let (mut ours, mut ours_cpu, mut theirs) = (Duration::MAX, f64::MAX, Vec::new());
        for _ in 0..TURNS {
            theirs.push(python_times(python, &request, threads)?);
            for _ in 0..ROUNDS {
                let (start, start_cpu) = (Instant::now(), cpu_seconds()?);
                let held = compare_outputs(&request, &table)?.held;
                ours = ours.min(start.elapsed());
                ours_cpu = ours_cpu.min(cpu_seconds()? - start_cpu);
                if theirs.iter().any(|times| times["close"] != held) {
                    return Err(format!("{name}: held is {held}, which assert_close denies").into());
                }
            }
        }
        let best = |key: &str| {
            theirs.iter().filter_map(|times| times[key].as_f64()).fold(f64::MAX, f64::min)
        };
        let seconds = ours.as_secs_f64();
        println!(
            "{name}, 2 × {mebibytes} MiB, {threads} threads: ours {:.1} ms with all figures, \
             assert_close {:.1} ms, one read of one side {:.1} ms",
            seconds * 1e3,
            best("assert_close") * 1e3,
            best("read") * 1e3
        );
        println!(
            "  processor time: ours {:.1} ms, assert_close {:.1} ms, {:.1} times",
            ours_cpu * 1e3,
            best("assert_close_cpu") * 1e3,
            best("assert_close_cpu") / ours_cpu
        );
        figures.push(ratio(
            &format!("compare {name} against assert_close"),
            best("assert_close") / seconds,
            *goal,
        ));
        if *dtype == "float32" {
            println!("  numpy.allclose {:.1} ms", best("numpy_allclose") * 1e3);
            // Two sides are read; the goal is a quarter of the bandwidth of reading.
            figures.push(ratio(
                &format!("compare {name}, part of read bandwidth"),
                2.0 * best("read") / seconds,
                0.25,
            ));
        }
        small_pair = small_pair.min(best("small_pair"));
    }
    small_pairs(directory.path(), &table, small_pair, &mut figures)?;
    report(&figures, figures_path)
}

/// Processor time of this process, all threads: what a busy machine does not stretch as it does the
/// time on the wall.
fn cpu_seconds() -> Result<f64, Failure> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn ratio(name: &str, value: f64, goal: f64) -> Figure {
    Figure { name: name.to_owned(), value, unit: "times", goal, met: value >= goal }
}

/// Ten thousand pairs of eight numbers: the cost of a comparison beyond reading its two files.
fn small_pairs(
    directory: &Path,
    table: &ToleranceTable,
    theirs: f64,
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    let leaves: Vec<(String, Vec<u8>)> = (0..1000)
        .map(|number| (number.to_string(), bytes_of("float32", 32, Noise::Relative(1e-6))))
        .collect();
    let request = write_pair(directory, "small", &leaves, &leaves, "float32", "F32")?;
    let mut ours = f64::MAX;
    for _ in 0..TURNS * ROUNDS {
        let start = Instant::now();
        for _ in 0..SMALL_PAIRS / leaves.len() {
            compare_outputs(&request, table)?;
        }
        ours = ours.min(start.elapsed().as_secs_f64() / SMALL_PAIRS as f64);
    }
    println!(
        "{SMALL_PAIRS} pairs of 8 numbers: ours {:.2} µs each, assert_close {:.1} µs",
        ours * 1e6,
        theirs * 1e6
    );
    let name = "compare a small pair".to_owned();
    figures.push(Figure { name, value: ours * 1e6, unit: "µs", goal: 5.0, met: ours < 5e-6 });
    Ok(())
}

/// tmpfs where there is one, as for real outputs.
fn exchange() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

fn large_pair(
    directory: &Path,
    dtype: &str,
    stored: &str,
    noise: &Noise,
    bytes: usize,
) -> Result<ToCompare, Failure> {
    let side = |noise| vec![("0".to_owned(), bytes_of(dtype, bytes, noise))];
    write_pair(directory, "large", &side(*noise), &side(Noise::Relative(0.0)), dtype, stored)
}

/// Pseudo-random numbers about normal, with noise so that every figure has work.
fn bytes_of(dtype: &str, length: usize, noise: Noise) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut bytes = Vec::with_capacity(length + 4);
    while bytes.len() < length {
        let value = (next() + next() + next() - 1.5) * 2.0;
        let value = noise.add(value, next());
        match dtype {
            "float32" => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
            "bfloat16" => bytes.extend_from_slice(&bf16::from_f64(value).to_le_bytes()),
            _ => bytes.extend_from_slice(&f16::from_f64(value).to_le_bytes()),
        }
    }
    bytes
}

fn write_pair(
    directory: &Path,
    name: &str,
    actual: &[(String, Vec<u8>)],
    expected: &[(String, Vec<u8>)],
    dtype: &str,
    stored: &str,
) -> Result<ToCompare, Failure> {
    let write = |side: &str, leaves: &[(String, Vec<u8>)]| -> Result<String, Failure> {
        let size = if dtype == "float32" { 4 } else { 2 };
        let (mut header, mut structure, mut data) = (serde_json::Map::new(), Vec::new(), 0);
        for (path, bytes) in leaves {
            let shape = [bytes.len() / size];
            structure.push(json!({"path": path, "kind": "tensor", "dtype": dtype, "shape": shape}));
            let offsets = [data, data + bytes.len()];
            data += bytes.len();
            header.insert(
                path.clone(),
                json!({"dtype": stored, "shape": shape, "data_offsets": offsets}),
            );
        }
        let structure = serde_json::to_string(&structure)?;
        header.insert("__metadata__".to_owned(), json!({ "structure": structure }));
        let mut header = Value::Object(header).to_string();
        header.push_str(&" ".repeat((8 - header.len() % 8) % 8));
        let path = directory.join(format!("{name}-{side}.safetensors"));
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
        std::io::Write::write_all(&mut file, &(header.len() as u64).to_le_bytes())?;
        std::io::Write::write_all(&mut file, header.as_bytes())?;
        for (_, bytes) in leaves {
            std::io::Write::write_all(&mut file, bytes)?;
        }
        std::io::Write::flush(&mut file)?;
        Ok(path.display().to_string())
    };
    Ok(ToCompare {
        wide: None,
        flushed_dtypes: Vec::new(),
        addends: None,
        spread: None,
        label: String::new(),
        actual: write("actual", actual)?,
        expected: write("expected", expected)?,
        rule: "close".to_owned(),
        reference: "none".to_owned(),
        tolerance_class: "default".to_owned(),
    })
}

fn python_times(python: &str, request: &ToCompare, threads: usize) -> Result<Value, Failure> {
    let output = Command::new(python)
        .args(["-c", PYTHON, &request.actual, &request.expected])
        .args([ROUNDS.to_string(), threads.to_string()])
        .env("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn report(figures: &[Figure], path: Option<PathBuf>) -> Result<(), Failure> {
    println!();
    for Figure { name, value, unit, goal, met } in figures {
        let word = if *met { "met" } else { "NOT met" };
        println!("{name:<66} {value:>8.2} {unit:<6} goal {goal:>6}  {word}");
    }
    if let Some(path) = path {
        let list: Vec<Value> = figures
            .iter()
            .map(|f| json!({"name": f.name, "value": f.value, "unit": f.unit, "goal": f.goal, "met": f.met}))
            .collect();
        std::fs::write(path, serde_json::to_string_pretty(&list)?)?;
    }
    Ok(())
}
