/** The document of the API: well formed, true about every answer, and enough for a client that a program made from it. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import { beforeAll, expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { type Answer, type AskOptions, ask, readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const run = promisify(execFile);
const BIN = join(import.meta.dirname, "../../../node_modules/.bin");
/** The generator is a process of its own that loads a compiler; machines may be busy. */
const TYPES = /^application\/(problem\+)?json/;

let stage: Stage;
let api: TestApi;
let directory: string;
let file: string;
// biome-ignore lint/suspicious/noExplicitAny: a document is walked through as it comes
let document: any;
let ajv: Ajv2020;

beforeAll(async () => {
  stage = await openStage();
  await stage.startWorker();
  api = await startApi({ client: stage.client({ workspaceRoot: stage.workspaceRoot }) });
  directory = await mkdtemp(join(tmpdir(), "openapi-"));
  closeAtEnd(() => rm(directory, { recursive: true }));
  document = (await ask(`${api.url}/openapi.json`, "GET")).body;
  file = join(directory, "openapi.json");
  await writeFile(file, JSON.stringify(document));
  ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema(document, "document");
});

/** Asks, and holds the answer against what the document says about this operation and status. */
async function checked(id: string, method: string, path: string, options?: AskOptions): Promise<Answer> {
  const answer = await api.ask(method, path, options);
  const [template, operation] = operationOf(id);
  const status = answer.status < 400 ? String(answer.status) : "4XX";
  const type = TYPES.exec(answer.headers.get("content-type") ?? "")?.[0] ?? "none";
  const at = [template, operation, "responses", status, "content", type, "schema"];
  const pointer = at.map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1")).map(encodeURIComponent);
  const validate = ajv.compile({ $ref: `document#/paths/${pointer.join("/")}` });
  expect(validate(answer.body) || validate.errors, `${id} ${answer.status}`).toBe(true);
  return answer;
}

function operationOf(id: string): [path: string, method: string] {
  for (const [path, item] of Object.entries<Record<string, { operationId?: string }>>(document.paths))
    for (const [method, { operationId }] of Object.entries(item))
      if (operationId === id) return [path, method];
  throw new Error(`no operation ${id}`);
}

test("passes the linter's recommended rules", async () => {
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const { stdout } = await run(
    join(BIN, "redocly"),
    ["lint", file, "--extends=recommended-strict", "--format=json"],
    { env, cwd: directory },
  );
  expect(JSON.parse(stdout.slice(stdout.indexOf("{")))).toMatchObject({ totals: { errors: 0, warnings: 0 } });
});

test("tells the truth about what every operation answers", async () => {
  const path = "/v1/parents/truth";
  await checked("spawn", "POST", `${path}/agents`, { body: { name: "helper", keep_alive: true } });
  await checked("spawn", "POST", `${path}/agents`, { body: { name: 7 } });
  await checked("sendMessage", "POST", `${path}/agents/helper/messages`, { body: { text: "Say hello" } });
  const page = await checked("readReplies", "GET", `${path}/replies?wait=30`);
  const acks = { reply_ids: page.body.replies.map(({ reply_id }: { reply_id: string }) => reply_id) };
  await checked("ackReplies", "POST", `${path}/replies/ack`, { body: acks });
  await checked("listAgents", "GET", `${path}/agents`);
  await checked("listParents", "GET", "/v1/parents");
  await checked("listParents", "GET", "/v1/parents?after=x");
  await checked("getAgent", "GET", `${path}/agents/helper`);
  await checked("getAgent", "GET", `${path}/agents/nobody`);
  await checked("readTimeline", "GET", `${path}/agents/helper/timeline`);
  await checked("readFullText", "GET", `${path}/agents/helper/reply`);
  await checked("listFiles", "GET", `${path}/agents/helper/files`);
  await checked("answerQuestion", "POST", `${path}/agents/helper/answers`, { body: { text: "yes" } });
  await checked("finishAgent", "POST", `${path}/agents/helper/finish`);
  await checked("destroyAgent", "DELETE", `${path}/agents/helper`);
  await checked("task", "POST", `${path}/tasks`, { body: { prompt: "Say hello" } });
  await checked("task", "POST", `${path}/tasks?wait=30`, { body: { prompt: "Say hello" } });
});

test("knows an agent that was made from a definition and waits for its tools", async () => {
  const path = "/v1/parents/told/agents";
  await checked("spawn", "POST", path, { body: { name: "scout", agent: "explorer" } });
  const parent = { tenant: "default", parentId: "told" };
  const { call, store } = await internalsOf(stage.client()).open();
  const [uid = ""] = (await call(({ read }) => read(() => store.liveRecords(parent)))).map(
    (each) => each.uid,
  );
  // As the worker that found out what it lacks writes it down.
  const waits = { status: "queued", tools_since: Date.now() };
  await stage.redis.hset(stage.keys.agent({ ...parent, uid }).record, waits);
  const { body } = await checked("getAgent", "GET", `${path}/scout`);
  expect(body).toMatchObject({ status: "waiting_for_tools", definition: "explorer" });
});

test("is enough for a client that a generator made from it", async () => {
  await run(join(BIN, "swagger-typescript-api"), [
    "generate",
    "-p",
    file,
    "-o",
    directory,
    "-n",
    "client.ts",
  ]);
  const { Api } = await import(pathToFileURL(join(directory, "client.ts")).href);
  const client = new Api({ baseUrl: api.url });
  const reply = await client.v1.task("generated", { prompt: "Say hello" }, { wait: 30 });
  expect(reply.data).toMatchObject({ kind: "reply", status: "succeeded", parent_id: "generated" });
  const refused = await client.v1
    .getAgent("generated", "nobody")
    .catch((answer: { error: unknown }) => answer);
  expect(refused.error).toMatchObject({ status: 404, code: "unknown_agent" });
  await until(async () => (await client.v1.readReplies("generated")).data.replies.length === 0);
});

test("is a page for people that loads nothing from elsewhere and runs no script", async () => {
  const { status, headers, body } = await ask(`${api.url}/docs`, "GET");
  expect(status).toBe(200);
  expect(headers.get("content-security-policy")).toContain("script-src 'self'");
  expect(body).not.toMatch(/<script|https?:\/\//);
  expect(body.slice(0, body.indexOf('id="shapes"'))).not.toContain("`");
  for (const id of ["task", "spawn", "readReplies", "followEvents", "shape-Reply"])
    expect(body).toContain(`id="${id}"`);
});

test.each(["/openapi.json", "/docs", "/", "/page.js"])(
  "%s is sent once to a client that keeps it",
  async (path) => {
    const first = await ask(api.url + path, "GET");
    const tag = first.headers.get("etag") ?? "";
    expect(tag).toMatch(/^"[\w-]{22}"$/);
    // As a browser does; without it `fetch` says `no-cache`.
    const again = await ask(api.url + path, "GET", {
      headers: { "if-none-match": tag, "cache-control": "max-age=0" },
    });
    expect(again).toMatchObject({ status: 304, body: "" });
    const other = await ask(api.url + path, "GET", { headers: { "if-none-match": '"other"' } });
    expect(other).toMatchObject({ status: 200, body: first.body });
  },
);

test("is found from its page, whether the page's address ends in a slash or not", async () => {
  for (const address of ["/docs", "/docs/"]) {
    const page = await fetch(api.url + address);
    const [, link = ""] = /href="([^"]*openapi\.json)"/.exec(await page.text()) ?? [];
    const { status, body } = await ask(new URL(link, page.url).href, "GET");
    expect({ address, status, title: body.info?.title }).toMatchObject({
      status: 200,
      title: document.info.title,
    });
  }
});

test("names every refusal of a stream as JSON, too", async () => {
  const events = readEvents(`${api.url}/v1/parents/${"x".repeat(65)}/events`);
  await expect(events.next()).rejects.toThrow(/^400 .*invalid_input/);
});
