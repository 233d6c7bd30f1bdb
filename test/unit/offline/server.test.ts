import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import {
  createOfflineModel,
  type OfflineModel,
  OfflineModelError,
  type OfflineModelOptions,
} from "../../../src/offline/server.ts";
import { until } from "../../helpers/until.ts";

const opened: OfflineModel[] = [];
afterEach(() => Promise.all(opened.splice(0).map((server) => server.stop())));

function create(options: OfflineModelOptions = {}): OfflineModel {
  const server = createOfflineModel(options);
  opened.push(server);
  return server;
}

const say = (server: OfflineModel, content: string) =>
  fetch(`${server.url}/v1/messages`, {
    method: "POST",
    body: JSON.stringify({ model: "m", max_tokens: 50, messages: [{ role: "user", content }] }),
  });

it("starts once however often it is told to, and stops as often", async () => {
  const server = create();
  await Promise.all([server.start(), server.start()]);
  const { url } = server;
  await server.start();
  expect(server.url).toBe(url);
  expect((await say(server, "hi")).status).toBe(200);
  await Promise.all([server.stop(), server.stop()]);
  await server.stop();
  await expect(say(server, "hi")).rejects.toThrow();
});

it("comes back on the same port after a stop, with its ledger", async () => {
  const server = create();
  await server.start();
  const { url } = server;
  await (await say(server, "hi")).text();
  const stopped = server.stop();
  await server.start();
  await stopped;
  expect(server.url).toBe(url);
  await (await say(server, "hi")).text();
  expect(server.ledger.map((entry) => entry.seq)).toEqual([1, 2]);
});

it("has no address before it was started", () => {
  expect(() => create().url).toThrow(expect.objectContaining({ code: "not_started" }));
});

it("says so when the port is taken, and can be stopped then", async () => {
  const first = create();
  await first.start();
  const second = create({ port: Number(new URL(first.url).port) });
  await expect(second.start()).rejects.toMatchObject({ code: "cannot_listen" });
  await second.stop();
});

it("refuses a scenario that cannot be played", () => {
  expect(() => createOfflineModel({ scenario: { turns: [] } })).toThrow(OfflineModelError);
});

it("appends its ledger to a file, and refuses to start when it cannot", async () => {
  const directory = mkdtempSync(join(tmpdir(), "offline-server-"));
  try {
    const ledgerPath = join(directory, "ledger.jsonl");
    const server = create({ ledgerPath });
    await server.start();
    await (await say(server, "hi")).text();
    await server.stop();
    expect(JSON.parse(readFileSync(ledgerPath, "utf8"))).toEqual(server.ledger[0]);
    const blind = create({ ledgerPath: join(directory, "none", "ledger.jsonl") });
    await expect(blind.start()).rejects.toMatchObject({
      code: "ledger_unwritable",
      message: expect.stringMatching(/ENOENT.*: name another file\.$/),
    });
    expect(existsSync(join(directory, "none"))).toBe(false);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

it("stops at once while a call waits, and writes the call down as aborted", async () => {
  const server = create({ latencyMs: 600_000 });
  await server.start();
  const call = say(server, "hi").catch(() => "broken off");
  await until(() => server.inFlight === 1);
  await server.stop();
  expect(await call).toBe("broken off");
  expect(server.ledger.map((entry) => entry.status)).toEqual(["aborted"]);
});

it("answers a refused request in the API's shape and writes it down", async () => {
  const server = create();
  await server.start();
  const response = await fetch(`${server.url}/v1/messages`, { method: "POST", body: "{" });
  expect(response.status).toBe(400);
  expect(await response.json()).toEqual({
    type: "error",
    error: { type: "invalid_request_error", message: "The request body is not valid JSON" },
    request_id: response.headers.get("request-id"),
  });
  expect(server.ledger).toMatchObject([
    { status: "error", http_status: 400, error_type: "invalid_request_error" },
  ]);
});

it("refuses a body above 32 MB with 413, after it has received it", async () => {
  const server = create();
  await server.start();
  const response = await fetch(`${server.url}/v1/messages`, {
    method: "POST",
    body: Buffer.alloc(32 * 1024 * 1024 + 1, 32),
  });
  expect(response.status).toBe(413);
  expect(await response.json()).toMatchObject({ error: { type: "request_too_large" } });
});

it("outlives a client that leaves in the middle of its body", async () => {
  const server = create();
  await server.start();
  const half = request(`${server.url}/v1/messages`, {
    method: "POST",
    headers: { "content-length": "1000" },
  });
  half.on("error", () => undefined);
  half.write("{");
  await until(() => server.inFlight === 1);
  half.destroy();
  await until(() => server.inFlight === 0);
  expect((await say(server, "hi")).status).toBe(200);
});

it("names each option that it does not know or cannot use", () => {
  const wrong = { prot: 1, host: "", port: "8", latencyMs: -1, parallel: 0.5, ledgerPath: 1 };
  const refusal: unknown = expect.objectContaining({ name: "OfflineModelError", code: "invalid_config" });
  const make = () => Reflect.apply(createOfflineModel, undefined, [wrong]);
  expect(make).toThrow(refusal);
  for (const name of Object.keys(wrong)) expect(make).toThrow(name);
  expect(() => createOfflineModel({ port: 65_536 })).toThrow(refusal);
});
