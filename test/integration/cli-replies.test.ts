/** Guarantee: `replies --ack` takes out of the channel what its reader has got, and nothing else. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { EXIT, openCommand } from "../../src/cli/command.ts";
import { createOutput, type OutputStream } from "../../src/cli/terminal/output.ts";
import { ACK_RETRY_MS, verb } from "../../src/cli/verbs/replies.ts";
import { type Clock, systemClock } from "../../src/shared/clock.ts";
import { beginning, latch } from "../helpers/latch.ts";
import { runHere } from "../helpers/program.ts";
import { placeOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { type Agent, openStage, type ProxiedStage, type Stage } from "../stage/stage.ts";
import { questionsOf } from "./verbs/rig.ts";

/** A stream whose reader has left after `reads` texts. */
function streamOf(reads = Number.POSITIVE_INFINITY): OutputStream & { read: string[] } {
  const read: string[] = [];
  let isGone = false;
  return {
    read,
    on: () => {},
    write(text, done) {
      isGone ||= text !== "" && read.length === reads;
      if (text !== "" && !isGone) read.push(text);
      done?.(isGone ? new Error("write EPIPE") : null);
    },
  };
}

/** The command on an installation with two entries of destroyed agents. */
async function scene(reads?: number) {
  return sceneOn(await openStage(), streamOf(reads));
}

async function sceneOn(installation: Stage, stdout: ReturnType<typeof streamOf>, clock: Clock = systemClock) {
  const agents = [await installation.spawn(), await installation.spawn()];
  for (const agent of agents) await installation.destroy(agent);
  const stop = new AbortController();
  const ask = (...flags: string[]) =>
    run(installation, agents[0], stdout, { signal: stop.signal, clock }, flags);
  const left = async () => (await Promise.all(agents.map(installation.entries))).flat().length;
  return { ask, left, stdout, stop };
}

async function run(
  { prefix, url }: Stage,
  agent: Agent | undefined,
  stdout: OutputStream,
  { signal, clock }: { signal: AbortSignal; clock: Clock },
  flags: string[],
): Promise<number | undefined> {
  const env = { REDIS_URL: url, SUBAGENT_PREFIX: prefix, SUBAGENT_PARENT: agent?.parentId };
  const surroundings = {
    env,
    cwd: process.cwd(),
    clock,
    output: createOutput(stdout, streamOf(), {}),
    input: process.stdin,
    signal,
    stopInTwoSteps: () => signal,
    version: "0",
    command: "subagent-queue",
  };
  let exitCode: number | undefined;
  const command = new Command();
  verb(
    command,
    (level) => openCommand(surroundings, level),
    (code) => {
      exitCode = code;
    },
  );
  await command.parseAsync(flags, { from: "user" });
  return exitCode;
}

/** A stream at whose first text Redis begins to refuse connections. */
function refusingFrom({ proxy }: Pick<ProxiedStage, "proxy">): ReturnType<typeof streamOf> {
  const stdout = streamOf();
  const { write } = stdout;
  stdout.write = (text, done) => {
    if (stdout.read.length === 0) proxy.refuse();
    write(text, done);
  };
  return stdout;
}

test("looking takes nothing out; --ack takes out all that was printed", async () => {
  const { ask, left, stdout } = await scene();
  expect(await ask("--json")).toBe(EXIT.done);
  expect([stdout.read.length, await left()]).toEqual([1, 2]);
  expect(await ask("--json", "--ack")).toBe(EXIT.done);
  expect(JSON.parse(stdout.read[1] ?? "").replies).toHaveLength(2);
  expect(await left()).toBe(0);
});

test("what was printed while Redis was away is taken out once it is back, without --follow too", async () => {
  const stage = await openStage({ redis: "own", proxied: true });
  const failed = latch();
  const stdout = refusingFrom(stage);
  const { ask, left } = await sceneOn(stage, stdout, beginning(ACK_RETRY_MS, failed));
  const taking = ask("--ack");
  await Promise.race([failed.opened, taking]);
  expect(await left()).toBe(2);
  stage.proxy.heal();
  expect(await taking).toBe(EXIT.done);
  expect(await left()).toBe(0);
});

test("--limit takes the oldest; the document says that there are more", async () => {
  const { ask, left, stdout } = await scene();
  expect(await ask("--json", "--ack", "--limit", "1")).toBe(EXIT.done);
  const { replies, more } = JSON.parse(stdout.read[0] ?? "");
  expect([replies.length, more, await left()]).toEqual([1, true, 1]);
  expect(await ask("--limit", "1", "--ack")).toBe(EXIT.done);
  expect(await left()).toBe(0);
  expect(await ask("--json")).toBe(EXIT.done);
  expect(JSON.parse(stdout.read.at(-1) ?? "")).toEqual({ replies: [] });
});

test("--limit without --json takes out so many entries, and no more", async () => {
  const { ask, left } = await scene();
  expect(await ask("--limit", "1", "--ack")).toBe(EXIT.done);
  expect(await left()).toBe(1);
});

test("a document that is interrupted is not printed, and takes nothing out", async () => {
  const { ask, left, stdout, stop } = await scene();
  stop.abort();
  expect(await ask("--json", "--ack")).toBe(EXIT.interrupted);
  expect([stdout.read, await left()]).toEqual([[], 2]);
});

test("a document without --limit has the oldest thousand entries, and says that there are more", async () => {
  const stage = await openStage();
  const stdout = streamOf();
  const agent = await stage.spawn();
  await stage.destroy(agent);
  const { replies } = stage.keys.parent(agent);
  const [[, fields] = ["", []]] = await stage.redis.xrange(replies, "-", "+", "COUNT", 1);
  const adding = stage.redis.pipeline();
  for (let n = 1; n <= 1_000; n++)
    adding.xadd(replies, "*", ...fields.map((field) => field.replaceAll(agent.uid, `sa-other-${n}`)));
  await adding.exec();
  const context = { signal: new AbortController().signal, clock: systemClock };
  expect(await run(stage, agent, stdout, context, ["--json"])).toBe(EXIT.done);
  const { replies: printed, more } = JSON.parse(stdout.read.join(""));
  expect([printed.length, more]).toEqual([1_000, true]);
});

test("a question whose agent cannot be read is not said to be over", async () => {
  const stage = await openStage();
  const agent = await stage.task("work");
  const { epoch } = await stage.scriptedWorker(agent.parentId).claim(agent.agentId);
  await stage.store.ask(agent, questionsOf(epoch));
  const { record } = stage.keys.agent(agent);
  await stage.redis.del(record);
  await stage.redis.set(record, "of the wrong kind");
  const stdout = streamOf();
  const context = { signal: new AbortController().signal, clock: systemClock };
  expect(await run(stage, agent, stdout, context, [])).toBe(EXIT.done);
  expect(stdout.read.join("")).toContain("answer by ");
});

test("--follow ends with --limit", async () => {
  const { ask, left, stdout } = await scene();
  expect(await ask("--follow", "--ack", "--json", "--limit", "1")).toBe(EXIT.done);
  expect([stdout.read.length, await left()]).toEqual([1, 1]);
});

test("a page is taken out before the next is read: an interrupted --ack leaves what was not printed", async () => {
  const stage = await openStage();
  const stdout = streamOf();
  const agent = await stage.spawn();
  const parent = stage.parent(agent.parentId);
  for (let n = 0; n < 105; n++) await parent.destroy((await parent.spawn({ name: "x" })).agent_id);
  const stop = new AbortController();
  const { write } = stdout;
  stdout.write = (text, done) => {
    write(text, done);
    if (stdout.read.length === 102) stop.abort();
  };
  const context = { signal: stop.signal, clock: systemClock };
  expect(await run(stage, agent, stdout, context, ["--ack"])).toBe(EXIT.interrupted);
  const rest = await parent.newReplies();
  expect([stdout.read.length, rest.entries.length]).toEqual([102, 3]);
});

test("what no reader got is not taken out", async () => {
  const { ask, left } = await scene(0);
  expect(await ask("--ack")).toBe(EXIT.done);
  expect(await left()).toBe(2);
});

test("what standard output had no room for is not taken out, and the command says that it is lost", async () => {
  const stage = await openStage();
  const agent = await stage.spawn();
  await stage.destroy(agent);
  const full: OutputStream = {
    on: () => {},
    write(text, done) {
      const refused = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
      done?.(text === "" ? null : refused);
    },
  };
  for (const flags of [[], ["--json"], ["--follow"]]) {
    const said = await runHere(["replies", "--ack", ...flags], { ...placeOn(stage), stdout: full });
    expect(said).toMatchObject({
      code: EXIT.environment,
      stderr: [
        expect.stringMatching(/^subagent-queue: Standard output cannot be written \(ENOSPC: no space/),
      ],
    });
    expect(await stage.entries(agent)).toHaveLength(1);
  }
});

test("--follow takes each entry out once it was printed, and ends at the first that no reader gets", async () => {
  const { ask, left, stdout } = await scene(1);
  expect(await ask("--follow", "--ack", "--json")).toBe(EXIT.done);
  expect([stdout.read.length, await left()]).toEqual([1, 1]);
});

test("--follow without --ack leaves everything where it is", async () => {
  const { ask, left, stdout, stop } = await scene();
  const following = ask("--follow", "--json");
  await until(() => stdout.read.length === 2);
  stop.abort();
  expect(await following).toBe(EXIT.done);
  expect(await left()).toBe(2);
});

test("--follow takes out what it printed while Redis was away once Redis is back, and prints it once", async () => {
  const stage = await openStage({ redis: "own", proxied: true });
  const failed = latch();
  const stdout = refusingFrom(stage);
  const { ask, left, stop } = await sceneOn(stage, stdout, beginning(ACK_RETRY_MS, failed));
  const following = ask("--follow", "--ack", "--json");
  await Promise.race([failed.opened, following]);
  expect(await left()).toBe(2);
  stage.proxy.heal();
  await until(async () => (await left()) === 0);
  stop.abort();
  expect(await following).toBe(EXIT.done);
  const printed = stdout.read.map((line) => JSON.parse(line).reply_id);
  expect(new Set(printed).size).toBe(2);
  expect(printed).toHaveLength(2);
});
