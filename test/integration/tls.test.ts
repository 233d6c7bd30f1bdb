/** Guarantee: a Redis behind a CA of one's own, which asks for a certificate, serves every connection; the address names the files. */
import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { openRedisSource } from "../../src/cli/local/redis.ts";
import { createParent } from "../../src/producer/parent.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { freePort, startRedisServer } from "../helpers/redis-server.ts";
import { openStage } from "../stage/stage.ts";

const SECRET = "canary-redis-password";
let folder: string;
let port: number;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tls-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  for (const name of ["ca", "other"]) selfSigned(name);
  await signed("server", "IP:127.0.0.1");
  await signed("stranger", "DNS:redis.example.com");
  await signed("client", "DNS:client");
  port = await startTls("server");
});

test("a client and a worker with a certificate of their own do a task over it", async () => {
  const redisUrl = address(port, ["ca", "cert", "key"]);
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: stage.offline.url });
  const worker = createWorker({ redisUrl, model, workspaceRoot: join(folder, "workspaces") });
  closeAtEnd(async () => {
    await worker.stop();
    await model.stop();
  });
  await worker.start();
  const parent = createParent({ redisUrl, parentId: "planner", model: "offline-1" });
  closeAtEnd(() => parent.stop());
  await expect(parent.task({ prompt: "work" })).resolves.toMatchObject({ summary: "done" });
});

describe("what cannot be trusted is named, without the password, and at once", () => {
  test.each([
    ["another CA", "server", "&ca=other", "self-signed certificate"],
    ["no CA of one's own", "server", "", "self-signed certificate"],
    ["another host's certificate", "stranger", "&ca=ca", "does not match certificate's altnames"],
  ])("%s", async (_what, shown, ca, problem) => {
    const at = shown === "server" ? port : await startTls(shown);
    const files = ca === "" ? "" : `?ca=${join(folder, `${ca.slice(4)}.crt`)}`;
    const refused = await refusalOf(`rediss://:${SECRET}@127.0.0.1:${at}${files}`);
    expect(refused).toMatchObject({ code: "redis_unavailable" });
    expect(refused.message).toContain("cannot be trusted");
    expect(refused.message).toContain(problem);
    expect(refused.message).not.toContain(SECRET);
  });
});

test.each([
  ["a file that is not there", { ca: "nothing.crt" }, "ENOENT"],
  ["a key of another certificate", { cert: "client.crt", key: "server.key" }, "mismatch"],
  ["a file that is no certificate", { cert: "ca.key", key: "ca.key" }, "PEM"],
])("%s is refused before anything is connected", async (_what, files, problem) => {
  const query = Object.entries(files).map(([name, file]) => `${name}=${join(folder, file)}`);
  const refused = await refusalOf(`rediss://:${SECRET}@127.0.0.1:${port}?${query.join("&")}`);
  expect(refused).toMatchObject({ code: "invalid_config" });
  expect(refused.message).toContain(problem);
});

async function refusalOf(redisUrl: string): Promise<Error> {
  const opening = openRedisSource({ redisUrl, production: false }, undefined, systemClock);
  return opening.then(
    () => new Error("it was taken"),
    (error: Error) => error,
  );
}

function address(at: number, names: readonly ("ca" | "cert" | "key")[]): string {
  const file = { ca: "ca.crt", cert: "client.crt", key: "client.key" };
  const query = names.map((name) => `${name}=${encodeURIComponent(join(folder, file[name]))}`);
  return `rediss://:${SECRET}@127.0.0.1:${at}?${query.join("&")}`;
}

/** A server that takes TLS alone, and clients alone that show a certificate of its CA. */
async function startTls(shown: string): Promise<number> {
  const tlsPort = await freePort();
  const file = (name: string) => join(folder, name);
  const server = await startRedisServer([
    ...["--tls-port", String(tlsPort), "--tls-auth-clients", "yes"],
    ...["--tls-cert-file", file(`${shown}.crt`), "--tls-key-file", file(`${shown}.key`)],
    ...["--tls-ca-cert-file", file("ca.crt")],
  ]);
  closeAtEnd(() => server.stop());
  return tlsPort;
}

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

function openssl(...words: string[]): void {
  execFileSync("openssl", words, { cwd: folder, stdio: "ignore" });
}

function selfSigned(name: string): void {
  const files = ["-keyout", `${name}.key`, "-out", `${name}.crt`];
  openssl("req", "-x509", ...NEW_KEY, "-days", "2", "-subj", `/CN=${name}`, ...files);
}

/** A certificate of `ca` for the host or address `names`. */
async function signed(name: string, names: string): Promise<void> {
  await writeFile(join(folder, `${name}.ext`), `subjectAltName=${names}\n`);
  openssl("req", ...NEW_KEY, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.csr`);
  const signer = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
  openssl("x509", "-req", "-in", `${name}.csr`, ...signer, "-extfile", `${name}.ext`, "-out", `${name}.crt`);
}
