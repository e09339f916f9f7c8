//! `rigel-sums` as a process: what it answers, and what it survives.

use std::io::{BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rigel_worker::frame::{self, Frame, FrameError, Kind};
use serde_json::{Value, json};

struct Worker {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the worker and reads its greeting.
    fn start() -> Self {
        Self::greeted(&[], 1)
    }

    /// One that works on several jobs at once.
    fn several(at_once: usize) -> Self {
        Self::greeted(&["--at-once", &at_once.to_string()], at_once)
    }

    fn greeted(arguments: &[&str], at_once: usize) -> Self {
        let (mut worker, greeting) = Self::started(arguments);
        let greeting: Value = serde_json::from_slice(&greeting.unwrap().payload).unwrap();
        assert_eq!(greeting["protocol"], rigel_worker::PROTOCOL);
        assert_eq!(greeting["name"], "sums");
        assert_eq!(greeting["at_once"], at_once);
        assert_eq!(greeting["pid"], worker.process.id());
        assert!(worker.process.try_wait().unwrap().is_none());
        worker
    }

    fn started(arguments: &[&str]) -> (Self, Result<Frame, FrameError>) {
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::piped());
        let mut process = Command::new(env!("CARGO_BIN_EXE_rigel-sums"))
            .args(arguments)
            .stdin(pipes.0)
            .stdout(pipes.1)
            .stderr(pipes.2)
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut worker = Self { process, input, output };
        let first = worker.read();
        (worker, first)
    }

    fn send(&mut self, kind: Kind, job: u64, payload: &[u8]) {
        frame::write(self.input.as_mut().unwrap(), kind, job, &[payload]).unwrap();
    }

    fn job(&mut self, number: u64, job: Value) {
        self.send(Kind::Job, number, job.to_string().as_bytes());
    }

    fn read(&mut self) -> Result<Frame, FrameError> {
        frame::read(&mut self.output, 1 << 20).map(|frame| frame.expect("the worker is there"))
    }

    /// The next answer, after any number of words about progress.
    fn answer(&mut self) -> Frame {
        loop {
            let frame = self.read().unwrap();
            if frame.kind != Kind::Progress {
                return frame;
            }
        }
    }

    /// Waits until each of these jobs has said something, and nobody else.
    fn all_speak(&mut self, jobs: &[u64]) {
        let mut silent = jobs.to_vec();
        while !silent.is_empty() {
            let frame = self.read().unwrap();
            assert!(frame.kind == Kind::Progress && jobs.contains(&frame.job), "{frame:?}");
            silent.retain(|job| *job != frame.job);
        }
    }

    fn result(&mut self, number: u64) -> (Value, Vec<u8>) {
        let frame = self.answer();
        assert_eq!((frame.kind, frame.job), (Kind::Done, number), "{}", String::from_utf8_lossy(&frame.payload));
        let (report, result) = frame::split_done(&frame.payload).unwrap();
        (serde_json::from_slice(report).unwrap(), result.to_vec())
    }

    fn failure(&mut self, number: u64) -> (String, String) {
        let frame = self.answer();
        assert_eq!((frame.kind, frame.job), (Kind::Failed, number));
        let answer: Value = serde_json::from_slice(&frame.payload).unwrap();
        (answer["kind"].as_str().unwrap().into(), answer["message"].as_str().unwrap().into())
    }

    /// Closes the input; the exit code and what was printed.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut words = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        (self.process.wait().unwrap().code(), words)
    }
}

#[test]
fn jobs_are_answered_in_order_with_reports() {
    let mut worker = Worker::start();
    for number in 1..=10 {
        worker.job(number, json!({ "numbers": [number, 100] }));
    }
    for number in 1..=10 {
        let (report, result) = worker.result(number);
        assert_eq!(result, (number + 100).to_string().into_bytes());
        assert_eq!(report["numbers"], 2);
        assert_eq!(report["output_bytes"], result.len());
        assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{report}");
    }
    assert_eq!(worker.end(), (Some(0), String::new()));
}

#[test]
fn errors_and_panics_are_answers() {
    let mut worker = Worker::start();
    let failing = |what: &str| json!({ "do": what });
    worker.job(1, failing("fail"));
    assert_eq!(worker.failure(1), ("error".into(), "the job asked to fail".into()));
    worker.job(2, failing("panic"));
    assert_eq!(worker.failure(2), ("panic".into(), "the job panicked: the job asked for a panic".into()));
    worker.job(3, failing("elsewhere"));
    assert_eq!(worker.failure(3).0, "elsewhere");
    worker.send(Kind::Job, 4, b"not JSON");
    assert_eq!(worker.failure(4).0, "error");
    worker.send(Kind::Done, 5, b"");
    assert_eq!(worker.failure(5).0, "refused");
    worker.job(6, json!({ "numbers": [6] }));
    assert_eq!(worker.result(6).1, b"6");
    let (code, words) = worker.end();
    assert_eq!(code, Some(0));
    assert!(words.contains("the job asked for a panic"), "{words}");
}

#[test]
fn what_a_job_prints_is_not_in_the_stream() {
    let mut worker = Worker::start();
    worker.job(1, json!({ "do": "print", "numbers": [1] }));
    assert_eq!(worker.result(1).1, b"1");
    assert_eq!(worker.end(), (Some(0), "printed by the job\n".into()));
}

#[test]
fn a_cancelled_job_ends_and_one_that_waits_never_begins() {
    let mut worker = Worker::start();
    worker.job(1, json!({ "milliseconds": 60_000, "numbers": [] }));
    worker.job(2, json!({ "do": "abort" }));
    // The first is under way when it speaks.
    assert_eq!(worker.read().unwrap().kind, Kind::Progress);
    worker.send(Kind::Stop, 2, b"");
    assert_eq!(worker.failure(2).0, "stopped");
    worker.send(Kind::Stop, 1, b"");
    assert_eq!(worker.failure(1).0, "stopped");
    // One that is over is not.
    worker.send(Kind::Stop, 1, b"");
    worker.job(3, json!({ "numbers": [3] }));
    assert_eq!(worker.result(3).1, b"3");
}

#[test]
fn too_many_waiting_jobs_are_refused() {
    let mut worker = Worker::start();
    worker.job(1, json!({ "milliseconds": 60_000, "numbers": [] }));
    assert_eq!(worker.read().unwrap().kind, Kind::Progress);
    for number in 2..=18 {
        worker.job(number, json!({ "numbers": [number] }));
    }
    let (kind, message) = worker.failure(18);
    assert_eq!(kind, "refused");
    assert!(message.contains("16 jobs wait already"), "{message}");
    worker.send(Kind::Stop, 1, b"");
    assert_eq!(worker.failure(1).0, "stopped");
    for number in 2..=17 {
        assert_eq!(worker.result(number).1, number.to_string().into_bytes());
    }
}

#[test]
fn a_worker_without_a_parent_ends_in_the_middle_of_a_job() {
    let mut worker = Worker::start();
    worker.job(1, json!({ "do": "hang" }));
    assert_eq!(worker.read().unwrap().kind, Kind::Progress);
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn a_worker_whose_parent_dies_in_the_middle_of_a_frame_ends() {
    for job in [None, Some(json!({ "do": "hang" }))] {
        let mut worker = Worker::start();
        if let Some(job) = job {
            worker.job(1, job);
            assert_eq!(worker.read().unwrap().kind, Kind::Progress);
        }
        // A parent that dies takes both of its other streams with it: nobody reads what the worker says about it.
        let Worker { mut process, input, output } = worker;
        drop((output, process.stderr.take()));
        let mut input = input.unwrap();
        input.write_all(&[b'J'; 3]).unwrap();
        drop(input);
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = process.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                process.kill().unwrap();
                panic!("the worker is still there");
            }
            sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(1));
    }
}

#[test]
fn garbage_ends_the_worker_with_its_reason() {
    let mut worker = Worker::start();
    worker.input.as_mut().unwrap().write_all(&[b'x'; 100]).unwrap();
    let (code, words) = worker.end();
    assert_eq!(code, Some(1));
    assert!(words.contains("\"xxxx\" is not a frame's kind"), "{words}");
}

#[test]
fn garbage_from_a_worker_is_found() {
    let (_, first) = Worker::started(&["--garbage"]);
    assert!(matches!(&first, Err(FrameError::Kind(letters)) if letters == "this"), "{first:?}");
}

fn long() -> Value {
    json!({ "milliseconds": 60_000, "numbers": [] })
}

#[test]
fn several_jobs_are_worked_on_at_once_and_begin_in_order() {
    let mut worker = Worker::several(2);
    for number in 1..=2 {
        worker.job(number, long());
    }
    worker.job(3, json!({ "do": "hang" }));
    worker.job(4, json!({ "do": "abort" }));
    // The third would speak, too, if it had begun, and the fourth would end everything.
    worker.all_speak(&[1, 2]);
    worker.send(Kind::Stop, 4, b"");
    assert_eq!(worker.failure(4).0, "stopped");
    // Each is stopped by itself, and the next takes its place.
    worker.send(Kind::Stop, 2, b"");
    let (mut is_stopped, mut has_begun) = (false, false);
    while !(is_stopped && has_begun) {
        // In any order: a place is free before the answer is written.
        let frame = worker.read().unwrap();
        match (frame.kind, frame.job) {
            (Kind::Failed, 2) => is_stopped = true,
            (Kind::Progress, 3) => has_begun = true,
            (Kind::Progress, 1 | 2) => {}
            _ => panic!("{frame:?}"),
        }
    }
    // The end of the input ends jobs that do not look at anything.
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn several_jobs_have_an_answer_each() {
    let mut worker = Worker::several(3);
    worker.job(0, long());
    let what = |number: u64| ["", "fail", "panic", "elsewhere", ""][number as usize % 5];
    for number in 1..=40 {
        let job = json!({ "numbers": [number, 100], "milliseconds": number * 7 % 4, "do": what(number) });
        worker.job(number, job);
        if number % 8 == 0 {
            // At most 16 may wait.
            for _ in 0..8 {
                let frame = worker.answer();
                let text = String::from_utf8_lossy(&frame.payload).into_owned();
                match what(frame.job) {
                    "" => {
                        let (_, result) = frame::split_done(&frame.payload).unwrap();
                        assert_eq!(result, (frame.job + 100).to_string().as_bytes());
                    }
                    "fail" => assert!(frame.kind == Kind::Failed && text.contains("asked to fail"), "{text}"),
                    "panic" => assert!(frame.kind == Kind::Failed && text.contains("asked for a panic"), "{text}"),
                    _ => assert!(frame.kind == Kind::Failed && text.contains("asked to be avoided"), "{text}"),
                }
            }
        }
    }
    // None was lost or answered twice: what follows is of the first, which has gone on meanwhile.
    worker.send(Kind::Stop, 0, b"");
    assert_eq!(worker.failure(0).0, "stopped");
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn a_job_that_gives_up_its_place_lets_the_next_begin() {
    let mut worker = Worker::several(1);
    worker.job(1, json!({ "do": "linger", "milliseconds": 60_000, "numbers": [] }));
    worker.job(2, json!({ "numbers": [2] }));
    assert_eq!(worker.result(2).1, b"2");
    // It is still a job that can be stopped.
    worker.send(Kind::Stop, 1, b"");
    assert_eq!(worker.failure(1).0, "stopped");
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn jobs_beyond_those_that_may_wait_are_refused_with_several_at_once() {
    let mut worker = Worker::several(2);
    for number in 1..=2 {
        worker.job(number, long());
    }
    worker.all_speak(&[1, 2]);
    for number in 3..=19 {
        worker.job(number, json!({ "numbers": [number] }));
    }
    assert_eq!(worker.failure(19).0, "refused");
    for number in 1..=2 {
        worker.send(Kind::Stop, number, b"");
    }
    let mut answered: Vec<u64> = (0..18).map(|_| worker.answer().job).collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..=18).collect::<Vec<_>>());
}
