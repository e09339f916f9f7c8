//! Host threads and memory near a device, on hosts with several NUMA nodes.
//!
//! Memory that a thread touches first lies on the node whose CPU the thread runs on. So whoever feeds a device runs on
//! the CPUs of the device's node, and allocates there. Where there is one node, or the system does not tell, nothing
//! here has an effect.

use std::fs;
use std::path::Path;

/// The folder in which Linux describes devices and NUMA nodes.
const SYSTEM: &str = "/sys";

/// The node of a PCI device (`0000:1b:00.0`), if the host has several nodes.
pub(crate) fn node_of(pci: &str) -> Option<u32> {
    node_in(Path::new(SYSTEM), pci)
}

fn node_in(system: &Path, pci: &str) -> Option<u32> {
    let nodes = fs::read_to_string(system.join("devices/system/node/online")).ok()?;
    if numbers(&nodes).len() < 2 {
        return None;
    }
    let path = system.join("bus/pci/devices").join(pci.to_lowercase()).join("numa_node");
    // The system says -1 where it does not know.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn cpus_in(system: &Path, node: u32) -> Vec<usize> {
    let path = system.join(format!("devices/system/node/node{node}/cpulist"));
    fs::read_to_string(path).map(|list| numbers(&list)).unwrap_or_default()
}

/// The numbers of a list as the system writes it: `0-3,8,10-11`.
fn numbers(list: &str) -> Vec<usize> {
    let part = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(part).flatten().collect()
}

/// Lets the calling thread, and threads that it starts from now on, run on the CPUs of a node only, as far as it may
/// use them.
pub(crate) fn stay_on(node: u32) {
    move_to(&cpus_in(Path::new(SYSTEM), node));
}

/// Runs `work` with the calling thread on the CPUs of a node, if one is given.
pub(crate) fn on<R>(node: Option<u32>, work: impl FnOnce() -> R) -> R {
    let before = node.and_then(|node| move_to(&cpus_in(Path::new(SYSTEM), node)));
    let result = work();
    if let Some(before) = before {
        set(&before);
    }
    result
}

/// Moves the calling thread to those of `cpus` that it may use, and returns what it could use before. Without any, it
/// stays where it is.
fn move_to(cpus: &[usize]) -> Option<libc::cpu_set_t> {
    // SAFETY: a set of CPUs is plain bits.
    let mut before: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes no more than the size that it is given, and 0 is the calling thread.
    let code = unsafe { libc::sched_getaffinity(0, size_of_val(&before), &mut before) };
    if code != 0 {
        return None;
    }
    // SAFETY: as above.
    let mut wanted: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the number is below the size of both sets.
        unsafe {
            if libc::CPU_ISSET(cpu, &before) {
                libc::CPU_SET(cpu, &mut wanted);
            }
        }
    }
    // SAFETY: the set is initialised.
    let any = unsafe { libc::CPU_COUNT(&wanted) } > 0;
    (any && set(&wanted)).then_some(before)
}

/// Sets the CPUs of the calling thread. Returns whether the system accepted them.
fn set(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is initialised, and 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(cpus), cpus) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as the system's, with these nodes and CPUs, and one device on `node`.
    fn system(name: &str, nodes: &[&str], node: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("rigel-numa-{}-{name}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let online = if nodes.len() > 1 { format!("0-{}\n", nodes.len() - 1) } else { "0\n".into() };
        write("devices/system/node/online", &online);
        for (number, cpus) in nodes.iter().enumerate() {
            write(&format!("devices/system/node/node{number}/cpulist"), cpus);
        }
        write("bus/pci/devices/0000:1b:00.0/numa_node", node);
        root
    }

    #[test]
    fn a_device_has_a_node_where_there_are_several() {
        let two = system("two", &["0-3,8-9\n", "4-7,10\n"], "1\n");
        // The driver writes letters in capitals.
        assert_eq!(node_in(&two, "0000:1B:00.0"), Some(1));
        assert_eq!(cpus_in(&two, 1), [4, 5, 6, 7, 10]);
        assert_eq!(cpus_in(&two, 0), [0, 1, 2, 3, 8, 9]);
        assert_eq!(node_in(&two, "0000:ff:00.0"), None, "there is no such device");
        assert!(cpus_in(&two, 2).is_empty());
        let one = system("one", &["0-3\n"], "0\n");
        assert_eq!(node_in(&one, "0000:1b:00.0"), None);
        let unknown = system("unknown", &["0\n", "1\n"], "-1\n");
        assert_eq!(node_in(&unknown, "0000:1b:00.0"), None);
        assert_eq!(node_in(Path::new("/nowhere"), "0000:1b:00.0"), None);
        for root in [two, one, unknown] {
            fs::remove_dir_all(root).unwrap();
        }
    }

    /// The CPUs that this thread may use.
    fn allowed() -> Vec<usize> {
        // SAFETY: as in `move_to`.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
            (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
        }
    }

    #[test]
    fn threads_move_and_come_back() {
        // A thread of its own, because tests share theirs.
        let seen = std::thread::spawn(|| {
            let all = allowed();
            let before = move_to(&all[..1]).unwrap();
            let there = allowed();
            let inherited = std::thread::spawn(allowed).join().unwrap();
            assert!(set(&before));
            // CPUs that the thread may not use, or none, leave it where it is.
            assert!(move_to(&[1023, 5000]).is_none() || all.contains(&1023));
            assert!(move_to(&[]).is_none());
            (there == all[..1], inherited == all[..1], allowed() == all)
        });
        assert_eq!(seen.join().unwrap(), (true, true, true));
    }
}
