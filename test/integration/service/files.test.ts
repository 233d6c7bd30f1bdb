/** The files of agents over HTTP: sent as their clients take them, whole or not at all. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { open, readdir, readlink, truncate } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const MIB = 1_024 * 1_024;
/** Far more than the sockets of a connection hold. */
const BIG_BYTES = 64 * MIB;
const CLIENTS = 8;

let stage: Stage;
let api: TestApi;
let agents = 0;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client({ workspaceRoot: stage.workspaceRoot }) });
});

/** An agent with one file of `size` bytes: where the file is on the disk, and its address. */
async function agentWithFile(size: number): Promise<{ file: string; path: string }> {
  agents += 1;
  const [parentId, tenant] = [`files-${agents}`, "default"];
  const { body } = await api.ask("POST", `/v1/parents/${parentId}/agents`, { body: { name: "writer" } });
  const agentId: string = body.agent_id;
  const uid = (await stage.store.uidOf({ tenant, parentId }, agentId)) ?? "";
  const { workspace } = await openWorkspace({
    ...{ root: stage.workspaceRoot, tenant, parentId, uid, agentId },
    ...{ roots: [], expected: false, clock: systemClock },
  });
  const file = join(workspace.directory, "big.bin");
  const handle = await open(file, "w");
  // What is sent from the wrong place is not the same.
  for (let at = 0; at < size; at += MIB) await handle.write(`piece ${at}`, at);
  await handle.truncate(size);
  await handle.close();
  return { file, path: `/v1/parents/${parentId}/agents/${agentId}/files/big.bin` };
}

/** A client that has the head of the answer to its first request, and reads no further. */
async function halfway(...paths: string[]): Promise<Socket> {
  const socket = connect(Number(new URL(api.url).port), "127.0.0.1");
  socket.on("error", () => {});
  closeAtEnd(() => void socket.destroy());
  socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`).join(""));
  await once(socket, "readable");
  return socket;
}

/** How often this process has a file open. */
async function timesOpen(file: string): Promise<number> {
  const names = await readdir("/proc/self/fd");
  const targets = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")));
  return targets.filter((target) => target === file).length;
}

test.for([0, 1, 65_536, 5 * MIB + 1])("a file of %d bytes comes whole, with its length", async (size) => {
  const { path } = await agentWithFile(size);
  const response = await fetch(api.url + path);
  expect([response.status, response.headers.get("content-length")]).toEqual([200, String(size)]);
  expect(response.headers.get("content-disposition")).toBe("attachment");
  expect(response.headers.get("cache-control")).toBe("no-store");
  const bytes = Buffer.from(await response.arrayBuffer());
  const expected = Buffer.alloc(size);
  for (let at = 0; at < size; at += MIB) expected.write(`piece ${at}`, at);
  const digest = (data: Buffer) => createHash("sha256").update(data).digest("hex");
  expect([bytes.length, digest(bytes)]).toEqual([size, digest(expected)]);
  const head = await fetch(api.url + path, { method: "HEAD" });
  expect([head.headers.get("content-length"), await head.text()]).toEqual([String(size), ""]);
});

test("clients that do not read on have a piece of their file held each, and leave no file open", async () => {
  const { file, path } = await agentWithFile(BIG_BYTES);
  const before = process.memoryUsage().arrayBuffers;
  const clients: Socket[] = [];
  for (let n = 0; n < CLIENTS; n++) clients.push(await halfway(path));
  expect(await timesOpen(file)).toBe(CLIENTS);
  // Pieces that have left may not have been collected yet.
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan((CLIENTS * BIG_BYTES) / 2);
  for (const client of clients) client.destroy();
  await until(async () => (await timesOpen(file)) === 0);
});

test("a file that becomes shorter while it is sent ends the connection: nothing else is taken for the rest of it", async () => {
  const { file, path } = await agentWithFile(BIG_BYTES);
  const client = await halfway(path, "/healthz");
  await truncate(file, 0);
  let [received, tail] = [0, ""];
  client.on("data", (bytes: Buffer) => {
    received += bytes.length;
    tail = (tail + bytes.toString("latin1")).slice(-1_000);
  });
  client.resume();
  await once(client, "close");
  expect(received).toBeLessThan(BIG_BYTES);
  expect(tail).not.toContain("HTTP/1.1 200");
  await until(async () => (await timesOpen(file)) === 0);
});
