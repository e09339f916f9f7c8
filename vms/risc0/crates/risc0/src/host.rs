//! The host's side of a guest's system calls: standard input, output and errors, the journal, and the few others that
//! guests use.
//!
//! A guest names a call by a string. Its kernel passes the string's address as a file descriptor, reads what the
//! host has for the guest, and then the two results of the call from descriptor 0.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::rc::Rc;

use anyhow::{Result, anyhow, bail};
use risc0_binfmt::ByteAddr;
use risc0_circuit_rv32im::execute::{Syscall, SyscallContext};

/// Registers of arguments, by their number.
const A3: usize = 13;
const A4: usize = 14;
const A5: usize = 15;

/// The descriptor of the journal.
const JOURNAL: u32 = 3;
/// The most bytes that a journal may have.
const MAX_JOURNAL: usize = 100 << 20;
/// The longest name of a call.
const MAX_NAME: usize = 256;

/// The streams that a guest reads and writes.
#[derive(Clone, Default)]
pub(crate) struct Host(Rc<Streams>);

#[derive(Default)]
struct Streams {
    stdin: RefCell<std::io::Cursor<Vec<u8>>>,
    journal: RefCell<Vec<u8>>,
    /// The results of the last call.
    results: Cell<(u32, u32)>,
    quiet: bool,
}

impl Host {
    /// A host with this standard input. Unless it is quiet, what the guest prints goes to the standard error.
    pub(crate) fn new(stdin: Vec<u8>, quiet: bool) -> Self {
        let stdin = RefCell::new(std::io::Cursor::new(stdin));
        Self(Rc::new(Streams { stdin, quiet, ..Streams::default() }))
    }

    /// The bytes that the guest has written to the journal.
    pub(crate) fn journal(&self) -> Vec<u8> {
        self.0.journal.borrow().clone()
    }

    /// Performs a call; fills what goes to the guest, and gives the two results.
    fn call(&self, context: &mut impl SyscallContext, name: &str, to_guest: &mut [u8]) -> Result<(u32, u32)> {
        match name.rsplit("::").next().unwrap_or(name) {
            "SYS_READ" => self.read(context, to_guest),
            "SYS_WRITE" => {
                let descriptor = context.peek_register(A3)?;
                let bytes = region(context, A4, A5)?;
                self.write(descriptor, &bytes)?;
                Ok((0, 0))
            }
            "SYS_LOG" => {
                let bytes = region(context, A3, A4)?;
                self.print(&bytes);
                self.print(b"\n");
                Ok((0, 0))
            }
            "SYS_PANIC" => {
                let bytes = region(context, A3, A4)?;
                bail!("the guest panicked: {}", String::from_utf8_lossy(&bytes))
            }
            "SYS_CYCLE_COUNT" => {
                let cycle = context.get_cycle();
                Ok(((cycle >> 32) as u32, cycle as u32))
            }
            // No environment variables and no arguments.
            "SYS_GETENV" => Ok((u32::MAX, 0)),
            "SYS_ARGC" => Ok((0, 0)),
            _ => bail!("the guest uses the system call {name}, which rigel-risc0 does not have"),
        }
    }

    /// Reads the standard input: whole words go to the guest's memory, what is left of the last word into a register.
    fn read(&self, context: &mut impl SyscallContext, to_guest: &mut [u8]) -> Result<(u32, u32)> {
        let (descriptor, size) = (context.peek_register(A3)?, context.peek_register(A4)? as usize);
        if descriptor != 0 {
            bail!("the guest reads from descriptor {descriptor}; there is only the standard input, 0");
        }
        if size < to_guest.len() {
            bail!("the guest reads {size} bytes into {}", to_guest.len());
        }
        let mut stdin = self.0.stdin.borrow_mut();
        let whole = fill(&mut *stdin, to_guest)?;
        // If the input has ended, nothing is left for the last word.
        let left = if size - whole <= 4 { size - whole } else { 0 };
        let mut last = [0; 4];
        let rest = fill(&mut *stdin, &mut last[..left])?;
        Ok(((whole + rest) as u32, u32::from_le_bytes(last)))
    }

    fn write(&self, descriptor: u32, bytes: &[u8]) -> Result<()> {
        match descriptor {
            JOURNAL => {
                let mut journal = self.0.journal.borrow_mut();
                if journal.len() + bytes.len() > MAX_JOURNAL {
                    bail!("the journal has more than {MAX_JOURNAL} bytes");
                }
                journal.extend_from_slice(bytes);
            }
            1 | 2 => self.print(bytes),
            other => bail!("the guest writes to descriptor {other}; there are 1, 2 and the journal, {JOURNAL}"),
        }
        Ok(())
    }

    fn print(&self, bytes: &[u8]) {
        if !self.0.quiet {
            // A closed standard error is no reason for the guest to fail.
            let _ = std::io::stderr().write_all(bytes);
        }
    }
}

impl Syscall for Host {
    fn host_read(&self, context: &mut impl SyscallContext, fd: u32, buffer: &mut [u8]) -> Result<u32> {
        if fd == 0 {
            let (first, second) = self.0.results.get();
            let results = [first.to_le_bytes(), second.to_le_bytes()].concat();
            let room =
                buffer.get_mut(..8).ok_or_else(|| anyhow!("the guest's kernel asks for too few results"))?;
            room.copy_from_slice(&results);
            return Ok(8);
        }
        let mut name = Vec::new();
        for address in fd.. {
            match context.peek_u8(ByteAddr(address))? {
                0 => break,
                _ if name.len() == MAX_NAME => bail!("the name of a system call has no end"),
                byte => name.push(byte),
            }
        }
        let name = String::from_utf8_lossy(&name).into_owned();
        let results = self.call(context, &name, buffer)?;
        self.0.results.set(results);
        Ok(buffer.len() as u32)
    }

    fn host_write(&self, _: &mut impl SyscallContext, _: u32, buffer: &[u8]) -> Result<u32> {
        self.print(buffer);
        Ok(buffer.len() as u32)
    }
}

/// The bytes of the guest's memory whose address and number are in two registers.
fn region(context: &mut impl SyscallContext, address: usize, size: usize) -> Result<Vec<u8>> {
    let (address, size) = (context.peek_register(address)?, context.peek_register(size)?);
    context.peek_region(ByteAddr(address), size as usize)
}

/// Reads until the buffer is full or the input ends.
fn fill(from: &mut impl Read, mut to: &mut [u8]) -> Result<usize> {
    let mut total = 0;
    while !to.is_empty() {
        let count = from.read(to)?;
        if count == 0 {
            break;
        }
        total += count;
        to = &mut to[count..];
    }
    Ok(total)
}
