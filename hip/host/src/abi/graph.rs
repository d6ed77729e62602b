//! Capture and graphs.

use super::{hip_functions, present, put};
use crate::command::Command;
use crate::{graph, stream};
use hip_abi::{
    hipError_t, hipGraphExec_t, hipGraphNode_t, hipGraph_t, hipStreamCaptureMode, hipStreamCaptureStatus, hipStream_t,
};
use std::ffi::{c_char, c_uint};

hip_functions! {
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) { graph::begin(&stream::resolve(stream)?, mode) }

    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        put(graph, hipGraph_t::NULL)?;
        put(graph, graph::end(&stream::resolve(stream)?)?)
    }

    fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) {
        let stream = stream::resolve(stream)?;
        if stream.is_null() {
            graph::forbid_null_stream(stream.device)?;
        }
        put(status, graph::status(&stream))
    }

    fn hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint) {
        present(graph)?;
        if flags != 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        put(graph, graph::create_empty())
    }

    fn hipGraphDestroy(graph: hipGraph_t) { graph::destroy(graph) }

    // Without room for the nodes only their number is given.
    fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) {
        present(count)?;
        let found = graph::nodes(graph)?;
        if nodes.is_null() {
            return put(count, found.len());
        }
        let room = (*count).min(found.len());
        for (index, node) in found[..room].iter().enumerate() {
            put(nodes.add(index), *node)?;
        }
        put(count, room)
    }

    fn hipGraphInstantiate(exec: *mut hipGraphExec_t, graph: hipGraph_t, error_node: *mut hipGraphNode_t, log: *mut c_char, log_bytes: usize) {
        present(exec)?;
        if !error_node.is_null() {
            put(error_node, hipGraphNode_t::NULL)?;
        }
        if !log.is_null() && log_bytes > 0 {
            put(log, 0)?;
        }
        put(exec, graph::instantiate(graph)?)
    }

    fn hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) {
        let executable = graph::resolve_executable(exec)?;
        stream::resolve(stream)?.submit(Command::Graph(executable)).map(drop)
    }

    fn hipGraphExecDestroy(exec: hipGraphExec_t) { graph::destroy_executable(exec) }
}
