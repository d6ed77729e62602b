//! Names at Hugging Face: a server of the test's own gives the novelist to `--model org/name`, what was fetched works without it,
//! and without a network a sentence says what to do.

use crate::support::*;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

/// Answers requests for files of `org/novelist` as Hugging Face does, until the process ends.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream));
        }
    });
    format!("http://{address}")
}

fn answer(stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        let headers: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let range = headers.iter().find_map(|line| {
            let line = line.to_lowercase();
            let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
            Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()))
        });
        let path = request.split(' ').nth(1).unwrap_or_default();
        let file = path.strip_prefix("/org/novelist/resolve/main/").map(|name| novelist_folder().join(name));
        if respond(stream, file.as_deref().filter(|file| file.exists()), range).is_err() {
            return;
        }
    }
}

fn respond(mut stream: &TcpStream, file: Option<&Path>, range: Option<(u64, Option<u64>)>) -> std::io::Result<()> {
    let Some(file) = file else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    };
    let mut data = std::fs::File::open(file)?;
    let length = data.metadata()?.len();
    let first = range.map_or(0, |(first, _)| first);
    let last = range.and_then(|(_, last)| last).unwrap_or(length - 1).min(length - 1);
    let tag: String = file.file_name().map(|name| name.to_string_lossy().replace('.', "-")).unwrap_or_default();
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {first}-{last}/{length}\r\n\
         etag: \"{tag}\"\r\nx-repo-commit: 0123456789abcdef\r\naccept-ranges: bytes\r\n\r\n",
        last + 1 - first
    )?;
    data.seek(SeekFrom::Start(first))?;
    std::io::copy(&mut data.take(last + 1 - first), &mut stream)?;
    Ok(())
}

const NOWHERE: &str = "http://127.0.0.1:9";

fn generate(model: &str, endpoint: &str, cache: &Path) -> std::process::Output {
    let arguments =
        ["generate", "--device", "cpu", "--prompt", "My dear Holmes,", "--temperature", "0", "--repeat-penalty", "1"];
    program()
        .args(arguments)
        .args(["--max-tokens", "12", "--json", "--model", model])
        .env("HF_ENDPOINT", endpoint)
        .env("HF_HOME", cache)
        .output()
        .expect("it starts")
}

#[test]
fn a_name_is_fetched_once_and_then_needs_no_network() {
    let cache = tempfile::tempdir().expect("a folder");
    for (model, endpoint) in [
        ("org/novelist", serve()),
        ("org/novelist", NOWHERE.to_owned()),
        ("org/novelist/novelist-7m.Q8_0.gguf", serve()),
        ("org/novelist/novelist-7m.Q8_0.gguf", NOWHERE.to_owned()),
    ] {
        let report = json(generate(model, &endpoint, cache.path()));
        let text = report["text"].as_str().expect("a text");
        assert!(text.starts_with(" I am sure you will be very happy to do"), "{model} from {endpoint}: {report}");
    }
}

#[test]
fn a_name_that_cannot_be_fetched() {
    let cache = tempfile::tempdir().expect("a folder");
    let output = generate("org/novelist", NOWHERE, cache.path());
    assert_fails(&output, 3, &["org/novelist is no file or folder here", "hf download org/novelist", "--model"]);
    let output = generate("org/nobody", &serve(), cache.path());
    assert_fails(&output, 3, &["org/nobody is neither a file or folder here nor a model"]);
}
