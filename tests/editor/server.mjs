// Runs yaml-language-server and communicates with it on stdio like an editor.
import { spawn } from "node:child_process";

export class Server {
  #child;
  #waiting = new Map(); // requests by id, diagnostics by uri
  #buffer = Buffer.alloc(0);
  #next = 1;

  constructor(program) {
    this.#child = spawn(process.execPath, [program, "--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
    this.#child.stdout.on("data", (data) => this.#read(data));
  }

  async start(settings) {
    this.settings = settings;
    const completionItem = { snippetSupport: true, documentationFormat: ["markdown", "plaintext"] };
    const textDocument = {
      completion: { completionItem },
      hover: { contentFormat: ["markdown"] },
      publishDiagnostics: {},
    };
    await this.ask("initialize", {
      processId: process.pid,
      rootUri: null,
      capabilities: { textDocument, workspace: { configuration: true } },
    });
    this.tell("initialized", {});
    this.tell("workspace/didChangeConfiguration", { settings });
  }

  // Opens a document and returns the server's diagnostics.
  open(uri, text) {
    const told = new Promise((resolve) => this.#waiting.set(uri, resolve));
    this.tell("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version: 1, text } });
    return told;
  }

  ask(method, params) {
    const id = this.#next++;
    const answered = new Promise((resolve) => this.#waiting.set(id, resolve));
    this.#write({ id, method, params });
    return answered;
  }

  tell(method, params) {
    this.#write({ method, params });
  }

  async stop() {
    await this.ask("shutdown", null);
    this.tell("exit", null);
  }

  #write(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.#child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.#child.stdin.write(body);
  }

  #read(data) {
    this.#buffer = Buffer.concat([this.#buffer, data]);
    for (;;) {
      const end = this.#buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/Content-Length: (\d+)/i.exec(this.#buffer.subarray(0, end))[1]);
      if (this.#buffer.length < end + 4 + length) return;
      const message = JSON.parse(this.#buffer.subarray(end + 4, end + 4 + length));
      this.#buffer = this.#buffer.subarray(end + 4 + length);
      this.#take(message);
    }
  }

  #take({ id, method, params, result, error }) {
    if (method === "textDocument/publishDiagnostics") {
      this.#answer(params.uri, params.diagnostics);
    } else if (method === "workspace/configuration") {
      this.#write({ id, result: params.items.map((item) => this.settings[item.section] ?? null) });
    } else if (method && id !== undefined) {
      this.#write({ id, result: null });
    } else if (!method) {
      this.#answer(id, error ? Promise.reject(new Error(error.message)) : result);
    }
  }

  #answer(key, value) {
    this.#waiting.get(key)?.(value);
    this.#waiting.delete(key);
  }
}
