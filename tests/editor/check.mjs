// Tests the schemas with yaml-language-server: run by `make editor`. The first argument is the path of the server's program.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync, mkdirSync, copyFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Server } from "./server.mjs";

const root = join(import.meta.dirname, "../..");
const work = mkdtempSync(join(tmpdir(), "mullion-editor-"));
const server = new Server(process.argv[2]);
let failed = 0;

// Prints the messages. Reports an error if they lack one of the texts, or if there are messages although no text is given.
function expect(what, said, texts) {
  console.log(`\n== ${what}\n${said.join("\n") || "(nothing)"}`);
  const missing = texts.filter((text) => !said.some((line) => line.includes(text)));
  if (missing.length > 0 || (texts.length === 0 && said.length > 0)) {
    failed += 1;
    console.log(`FAILED: expected ${texts.length > 0 ? missing.join(" | ") : "nothing"}`);
  }
}

// Opens a text in which ^ marks the cursor.
let opened = 0;
const MODELINE = "# yaml-language-server: $schema=schema/policy.json\n";
async function open(text, modeline = MODELINE) {
  const whole = modeline + text;
  const before = whole.split("^")[0];
  const path = join(work, `${++opened}.yaml`);
  writeFileSync(path, whole.replace("^", ""));
  const uri = pathToFileURL(path).href;
  const diagnostics = (await server.open(uri, whole.replace("^", ""))).map(
    ({ range: { start }, message }) => `${start.line + 1}:${start.character + 1} ${message}`,
  );
  const lines = before.split("\n");
  const at = { textDocument: { uri }, position: { line: lines.length - 1, character: lines.at(-1).length } };
  return { diagnostics, at };
}

async function completion(text, schema = "policy") {
  const { at } = await open(text, `# yaml-language-server: $schema=schema/${schema}.json\n`);
  const { items } = await server.ask("textDocument/completion", at);
  return items.map(({ label, documentation }) => `${label}: ${(documentation?.value ?? documentation ?? "").split("\n")[0]}`);
}

async function hover(text) {
  const { at } = await open(text);
  return (await server.ask("textDocument/hover", at)).contents.value.split("\n");
}

const of = (kind, spec) => `apiVersion: mullion.dev/v1alpha1\nkind: ${kind}\nmetadata: {name: a}\nspec:\n${spec}`;

try {
  mkdirSync(join(work, "schema"));
  for (const name of readdirSync(join(root, "policies/schema"))) {
    copyFileSync(join(root, "policies/schema", name), join(work, "schema", name));
  }
  await server.start({ yaml: { validate: true, completion: true, hover: true, schemaStore: { enable: false } } });

  for (const name of readdirSync(join(root, "policies")).filter((name) => name.endsWith(".yaml"))) {
    const text = readFileSync(join(root, "policies", name), "utf8");
    expect(`policies/${name} has no problem`, (await open(text, "")).diagnostics, []);
    const documents = text.split(/^---$/m);
    const unsaid = documents.filter((document) => !document.includes("# yaml-language-server: $schema="));
    expect(`policies/${name} names its schema in each document`, unsaid, []);
  }

  expect("an empty document", await completion("^"), ["PodPolicy: A new PodPolicy", "kind: "]);
  expect("keys of place", await completion(of("PodPolicy", "  place:\n    ^\n")), [
    "nodeSelector: The operating system in the nodeSelector",
    "build: Keeps pods off nodes",
    "specOS: ",
  ]);
  expect("keys of a NodePolicy", await completion(of("NodePolicy", "  ^\n")), ["expectedPools: ", "windowsTaints: "]);
  expect("words of a mode", await completion(of("PodPolicy", "  place:\n    build:\n      mode: ^\n")), [
    "Compatible: Required node affinity",
    "Never: ",
  ]);
  expect("rules", await completion(of("PodPolicy", "  rules:\n    actions:\n      - rule: ^\n")), [
    "run-as-user: MUL201: ",
    "nfs-volume: MUL301: ",
  ]);
  expect("hover", await hover(of("PodPolicy", "  place:\n    build:\n      mo^de: Exact\n")), [
    "What Mullion adds so that a pod runs only on nodes",
    "Default: `Compatible`",
    "highest priority that sets this key decides",
    "* `Exact`: The nodeSelector",
  ]);
  const test = "apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\ncases:\n  - name: a\n    expect:\n      ^\n";
  expect("what a test case expects", await completion(test, "policy-test"), ["os: The OS decision", "denied: "]);
  const wrong = of("PodPolicy", "  mode: off\n  plac: {}\n  place: {build: Exact, runtimeClass: {mode: Named}}\n")
    + "  rules: {version: 0.1, actions: [{rule: run-as-usr, action: Warn}, {rule: mixed-os-containers, action: Repair}]}\n"
    + "  detect: {images: [{pattern: 'http://a/b', os: windows, builds: [10.0.1.2]}]}\n---\n"
    + MODELINE + of("NodePolicy", "  place: {}\n");
  expect("mistakes in two documents", (await open(wrong)).diagnostics, [
    '6:9 Value is not accepted. Valid values: "Enforce", "Audit", "Disabled"',
    "7:3 Property plac is not allowed",
    '8:18 Incorrect type. Expected "spec.place.build: {mode}"',
    '8:25 Missing property "name"',
    '9:20 Incorrect type. Expected "string"',
    "9:42 There is no such rule",
    "9:76 There is no repair for this rule",
    "10:31 This takes an image reference",
    "10:67 This takes a Windows build such as 10.0.20348",
    "17:3 Property place is not allowed",
  ]);
  const kind = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolic\n";
  expect("an unknown kind", (await open(kind)).diagnostics, ['Valid values: "PodPolicy", "NodePolicy"']);
} finally {
  await server.stop();
  rmSync(work, { recursive: true });
}
console.log(failed === 0 ? "\neditor: all as expected" : `\neditor: ${failed} not as expected`);
process.exitCode = failed === 0 ? 0 : 1;
