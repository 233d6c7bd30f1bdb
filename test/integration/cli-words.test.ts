/** Guarantee: what a verb is asked for happens, or it says why not; what it shows of an agent is what stands there. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { openParentScene } from "../helpers/parent-scene.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { CLEAN, placeOn, programOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

test("run refuses a tool that the definition does not have, as a spawn does", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { code, stdout, stderr } = await programOn(stage)(
    ...["run", "--agent", "explorer", "--tools", "write_file", "hi"],
  );
  expect({ code, stdout }).toEqual({ code: 2, stdout: [] });
  expect(stderr.join("\n")).toMatch(
    /task refused, nothing was done: tools write_file is more than is allowed/,
  );
});

test("spawn keeps an agent alive if the profile says so, and a call of the library with the same key finds it", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.register({ keep_alive: true });
  const spawn = (...more: string[]) =>
    programOn(stage)("spawn", "Reporter", "--parent", parent.parentId, "--request-key", "may", ...more);
  expect((await spawn()).stdout).toEqual(["reporter"]);
  expect(await parent.get("reporter")).toMatchObject({ keep_alive: true });
  const found = await parent.spawn({ name: "Reporter", request_key: "may" });
  expect(found).toMatchObject({ agent_id: "reporter", known: true });
  expect((await spawn("--keep-alive")).code).toBe(2);
});

test("show says what a queued agent was asked, also when none of it was read yet", async () => {
  const stage = await openStage();
  const program = programOn(stage);
  const agent = await stage.task("Count the files");
  const { stdout } = await program("show", agent.agentId);
  expect(stdout.join("\n")).toMatch(/\nAsked, not yet read\n {2}Count the files$/);
  const queued = JSON.parse((await program("show", agent.agentId, "--json")).stdout.join(""));
  expect(queued).toMatchObject({ status: "queued", messages: [], unread: ["Count the files"] });
  await stage.startWorker();
  await stage.reply(agent);
  const ended = JSON.parse((await program("show", agent.agentId, "--json")).stdout.join(""));
  expect(ended).toMatchObject({ messages: ["Count the files"], unread: [] });
});

test("show prints the whole prompt of an ended agent while its transcript is kept, then its beginning and that the rest is gone", async () => {
  const { parent, installation } = await openParentScene();
  const show = async (...more: string[]) =>
    (await programOn(installation)("show", "w", "--parent", parent.parentId, ...more)).stdout;
  const messages = async () => JSON.parse((await show("--json")).join("")).messages;
  const prompt = `Say hello. ${"word ".repeat(200)}The end.`;
  const { agent_id } = await parent.spawn({ name: "w", keep_alive: true });
  const hasRun = (run: number) =>
    until(async () => {
      const view = await parent.get(agent_id);
      return view.run === run && view.status === "idle";
    });
  await parent.send(agent_id, prompt);
  await hasRun(1);
  await parent.send(agent_id, "And now?");
  await hasRun(2);
  expect(await messages()).toEqual([prompt, "And now?"]);
  await parent.destroy(agent_id);
  expect(await messages()).toEqual([prompt, "And now?"]);
  expect(await show()).toContain(`  ${prompt}`);
  for await (const { ack } of parent.replies({ follow: false })) await ack();
  const [beginning = "", second] = await messages();
  expect(second).toBe("And now?");
  expect(prompt.startsWith(beginning.slice(0, -1))).toBe(true);
  const shown = await show();
  const at = shown.indexOf(`  ${beginning}`);
  expect(shown.slice(at + 1, at + 3)).toEqual([
    "  And now?",
    expect.stringMatching(/^ {2}\(the rest is not kept any more: /),
  ]);
});

test("show says of no prompt that is whole that a part of it is gone", async () => {
  const { parent, installation } = await openParentScene();
  const reply = await parent.task("Say hello");
  const { stdout } = await programOn(installation)("show", reply.agent_id, "--parent", parent.parentId);
  expect(stdout).toContain("  Say hello");
  expect(stdout.join("\n")).not.toContain("not kept any more");
});

test("replies tells a question that is open from one that was answered, and from one whose agent has ended", async () => {
  const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which?" } };
  const done = { content: [{ type: "text" as const, text: "done" }] };
  const scene = await openParentScene({ scenario: { turns: [{ content: [ask] }, done] } });
  const { parent, installation } = scene;
  const { agent_id } = await parent.spawn({ name: "w", keep_alive: true });
  await parent.send(agent_id, "paint");
  const statusOf = async () => (await parent.get(agent_id)).status;
  await until(async () => (await statusOf()) === "waiting");
  const questions = async () => {
    const { stdout } = await programOn(installation)("replies", "--parent", parent.parentId);
    return stdout.filter((line) => line.includes("question "));
  };
  expect(await questions()).toEqual([expect.stringMatching(/^ {2}question \S+ · answer by \S+$/)]);
  await parent.answer(agent_id, "green");
  await until(async () => (await statusOf()) === "idle");
  expect(await questions()).toEqual([expect.stringMatching(/^ {2}question \S+ · answered$/)]);
  await parent.destroy(agent_id);
  expect(await questions()).toEqual([expect.stringMatching(/^ {2}question \S+ · over$/)]);
});

test("logs of an agent that is not known is refused as show is, and says before it follows that nothing is kept", async () => {
  const stage = await openStage();
  const program = programOn(stage);
  const [logs, show] = [await program("logs", "nope"), await program("show", "nope")];
  expect(logs).toEqual(show);
  expect(logs).toMatchObject({ code: 2, stderr: [expect.stringMatching(/No sub-agent "nope" is known/)] });
  const agent = await stage.spawn();
  await stage.redis.del(stage.keys.agent(agent).timeline);
  expect(await program("logs", agent.agentId)).toMatchObject({
    code: 0,
    stderr: [`No event of ${agent.agentId} is kept; events expire after a day.`],
  });
  const following = startHere(["logs", "-f", "nope"], placeOn(stage));
  await following.waitForLine("No event of nope is kept; events expire after a day.");
  expect(await following.kill("SIGINT")).toMatchObject({ code: 0, stdout: [] });
  expect(following.stderr).toHaveLength(1);
});

test("profile set takes from standard input what it takes from a file, and says why it cannot be read", async () => {
  const stage = await openStage();
  const set = (...bytes: (string | Buffer)[]) =>
    runHere(["profile", "set", "-"], { ...placeOn(stage), input: Readable.from(bytes) });
  const system = "line\n".repeat(50_000);
  const long = JSON.stringify({ system });
  expect(long.length).toBeGreaterThan(256 * 1024);
  // In pieces, as a pipe hands it over: a reader that has enough leaves the rest.
  const half = long.length - 10_000;
  expect(await set(long.slice(0, half), long.slice(half))).toMatchObject({ code: 0, stdout: ["version 1"] });
  expect(await set(Buffer.from([0x7b, 0xff, 0x7d]))).toMatchObject({
    code: 2,
    stderr: [expect.stringMatching(/The profile "-" cannot be used: it is not UTF-8/)],
  });
  expect(await set("x".repeat(1_100_000))).toMatchObject({
    code: 2,
    stderr: [expect.stringMatching(/it is larger than 1 MB/)],
  });
});

test("a cap in USD on a model without a price says where a price is given", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { code, stderr } = await programOn(stage)(
    ...["run", "a", "--model", "no-such-model", "--max-cost-usd", "1"],
  );
  expect(code).toBe(3);
  expect(stderr.join("\n")).toMatch(/add its price \(SUBAGENT_PRICES, or prices in code\)/);
});

test("a scenario that cannot be played is refused with the places that are wrong and the form of one", async () => {
  const directory = mkdtempSync(join(tmpdir(), "scenario-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, "wrong.json");
  const refusalOf = async (scenario: unknown) => {
    writeFileSync(file, JSON.stringify(scenario));
    const { code, stderr } = await runHere(["offline-model", "--port", "0", "--scenario", file], {
      cwd: directory,
      env: CLEAN,
    });
    expect(code).toBe(2);
    return stderr.join("\n");
  };
  expect(await refusalOf({ turns: [{ content: "hello" }] })).toMatch(
    /wrong\.json" cannot be played: turns\.0\.content: .*expected array.*Write \{"turns":\[.*docs\/operations\.md/,
  );
  expect(await refusalOf([{ turns: [{ content: [] }] }, { responses: [] }])).toMatch(
    /1\.turns: .*1: .*"responses"/,
  );
});
