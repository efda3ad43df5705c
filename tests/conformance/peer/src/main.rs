//! candle-peer session FILE [--failed]   a trace with every record kind, by the crate's TraceSession
//! candle-peer send FILE SOCKET          the events of FILE, read and written by the crate, line by line into a socket
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use anyhow::{bail, Context, Result};
use candle_graph::instrument::{
    DeviceIntervalRecord, DeviceMemoryRecord, MemoryRecord, OpRecord, ProfileRun, SpanKind,
    TensorRecord, TraceSession,
};
use candle_graph::phase::ExecutionStep;
use candle_graph::trace::{GradientState, MemoryCategory, TraceEvent};
use candle_graph::{CaptureContract, CoverageLevel, MeasurementScope};

fn memory(tensor: &str, bytes: u64, category: MemoryCategory) -> MemoryRecord<'_> {
    MemoryRecord {
        storage_id: tensor,
        tensor_id: tensor,
        device: "cpu",
        bytes,
        dtype: "f32",
        category,
        timestamp_ns: None,
        op_name: Some("matmul"),
        shape: &[4, 16],
    }
}

fn step(session: &TraceSession, number: usize) -> Result<()> {
    let out = format!("t-out-{number}");
    let forward = session.begin_step_span("net/forward", ExecutionStep::Forward, SpanKind::Module);
    session.record_tensor(
        forward.id(),
        TensorRecord {
            tensor_id: "t-w",
            label: Some("name with \"quotes\", \u{1F600}, \n and \u{0001}"),
            shape: &[8, 16],
            dtype: "f32",
            device: "cpu",
            requires_grad: true,
            dense_bytes: None,
            category: MemoryCategory::Parameter,
        },
    )?;
    session.record_memory_alloc(forward.id(), memory(&out, 256, MemoryCategory::Activation))?;
    session.record_op(
        forward.id(),
        OpRecord {
            op_name: "matmul",
            inputs: &["t-x".into(), "t-w".into()],
            output: Some(&out),
            shape: &[4, 16],
            dtype: "f32",
            device: "cpu",
            duration_ns: 1,
            timestamp_ns: session.elapsed_ns(),
            output_dense_bytes: None,
            input_dense_bytes: 640,
        },
    )?;
    let forward_id = forward.id();
    session.record_scalar(forward_id, "loss", 5.951650039470735e-8 * (number as f64 + 1.0))?;
    session.record_scalar(forward_id, "huge", 1.5e300)?;
    session.record_device_interval(
        forward_id,
        DeviceIntervalRecord {
            device: "cuda:0",
            stream_id: "7",
            clock_id: "event-0",
            backend: "cuda_event",
            start_ns: 1000 * number as u64,
            duration_ns: 500,
        },
    )?;
    drop(forward);
    let backward = session.begin_step_span("net/backward", ExecutionStep::Backward, SpanKind::Function);
    session.record_data_edge("t-w", &out)?;
    session.record_memory_free(backward.id(), memory(&out, 256, MemoryCategory::Activation))?;
    drop(backward);
    drop(session.begin_step_span("net/optimizer", ExecutionStep::Optimizer, SpanKind::Function));
    session.record_device_memory(DeviceMemoryRecord {
        device: "cuda:0",
        used_bytes: Some(u64::MAX),
        free_bytes: None,
        reserved_bytes: Some(number as u64),
        capacity_bytes: None,
        timestamp_ns: None,
    })
}

fn write_session(path: &str, failed: bool) -> Result<()> {
    let contract = CaptureContract {
        measurement_scope: MeasurementScope::ProfiledWork,
        operations: CoverageLevel::Complete,
        tensors: CoverageLevel::Partial,
        gradients: CoverageLevel::Partial,
        logical_memory: CoverageLevel::Complete,
        physical_memory: CoverageLevel::Partial,
        device_timing: CoverageLevel::Partial,
        ..CaptureContract::default()
    };
    let session = TraceSession::open(
        path,
        ProfileRun::training("peer::train", 2, "cpu").tag("by", "candle-graph").capture_contract(contract),
    )?;
    let measured = session.begin_measurement("peer/measured");
    for number in 0..20 {
        step(&session, number)?;
    }
    session.record_gradient("params", "w", GradientState::Present, Some(0.1 + 0.2))?;
    session.record_gradient("params", "b", GradientState::Zero, Some(0.0))?;
    if failed {
        std::mem::forget(measured);
        session.finish_failed("the peer gave up")?;
    } else {
        drop(measured);
        session.finish()?;
    }
    Ok(())
}

/// The counts of what was sent, so that the test can compare them with what was stored.
fn send(path: &str, socket: &str) -> Result<()> {
    let mut stream = UnixStream::connect(socket).context("connect")?;
    let mut counts = BTreeMap::<String, u64>::new();
    for line in BufReader::new(std::fs::File::open(path)?).lines() {
        let event: TraceEvent = serde_json::from_str(&line?)?;
        let value = serde_json::to_value(&event)?;
        *counts.entry(value["kind"].as_str().context("kind")?.to_owned()).or_default() += 1;
        let mut text = serde_json::to_vec(&event)?;
        text.push(b'\n');
        stream.write_all(&text)?;
    }
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["session", path] => write_session(path, false),
        ["session", path, "--failed"] => write_session(path, true),
        ["send", path, socket] => send(path, socket),
        _ => bail!("candle-peer session FILE [--failed] | candle-peer send FILE SOCKET"),
    }
}
