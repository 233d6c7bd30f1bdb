/** Guarantee: what a parent sends with its words is there before the first turn that reads them, and what a run leaves is listed. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  link,
  mkdir,
  mkdtemp,
  open as openFile,
  readdir,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import type { ParentOptions } from "../../../src/producer/parent.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { ATTACHED_MAX_BYTES } from "../../../src/shared/protocol/message.ts";
import { whenAborted } from "../../../src/shared/stop-signal.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { keysLike } from "../../helpers/redis.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const call = (name: string, input: Record<string, unknown>) => ({
  content: [{ type: "tool_use" as const, name, input }],
});
const sha256 = (bytes: string | Buffer) => createHash("sha256").update(bytes).digest("hex");

const PNG = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(32, 7)]);
const GIF = Buffer.concat([Buffer.from("GIF89a"), Buffer.alloc(8)]);

async function open(scenario: Scenario, options: Partial<ParentOptions> = {}) {
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model });
  const client = stage.client({ workspaceRoot: stage.workspaceRoot });
  const parent = stage.parent("planner-7", { client, model: "offline-1", ...options });
  const workspace = (agentId: string) =>
    join(stage.workspaceRoot, "default", "planner-7", "agents", agentId, "workspace");
  return { stage, parent, heads, workspace, sent: () => heads.map(({ messages }) => messages) };
}

const NOTE = { file_path: "note.txt", content: "a note" };

const waitingKeys = ({ redis, prefix }: Stage) => keysLike(redis, `${prefix}:*:attachments`);

test("files of a task stand in the workspace before its first turn, and its reply lists what stands there at the end", async () => {
  const { parent, sent, stage } = await open({
    turns: [
      call("read_file", { file_path: "in/table.csv" }),
      call("write_file", { file_path: "report.md", content: "# Sum\n3\n" }),
      say("Done."),
    ],
  });
  const blob = Buffer.from([0, 255, 128, 10]);
  const reply = await parent.task({
    prompt: "work",
    files: [
      { path: "in/table.csv", content: "a,b\n1,2\n" },
      { path: "blob.bin", base64: blob.toString("base64") },
    ],
  });
  expect(sent()[0]).toContain(
    'Files of this message, in your workspace: \\"in/table.csv\\" (8 bytes), \\"blob.bin\\" (4 bytes).',
  );
  expect(sent()[1]).toContain("1,2");
  expect(reply.files).toEqual([
    { path: "blob.bin", size_bytes: 4, sha256: sha256(blob) },
    { path: "in/table.csv", size_bytes: 8, sha256: sha256("a,b\n1,2\n") },
    { path: "report.md", size_bytes: 8, sha256: sha256("# Sum\n3\n") },
  ]);
  const listed = await parent.files(reply.agent_id);
  expect(listed.map(({ path, size_bytes }) => ({ path, size_bytes }))).toEqual(
    reply.files?.map(({ path, size_bytes }) => ({ path, size_bytes })),
  );
  expect(await waitingKeys(stage)).toEqual([]);
});

test("files of a spawn and of its first message stand there together; the same message again writes nothing", async () => {
  const { parent, sent, workspace, stage } = await open(
    { turns: [say("one"), say("two")] },
    { keep_alive: true },
  );
  const { agent_id } = await parent.spawn({ name: "keeper", files: [{ path: "a.txt", content: "A" }] });
  const message = { message_id: "m-1", files: [{ path: "b.txt", content: "B" }] };
  await parent.send(agent_id, "first", message);
  expect((await parent.waitAll([agent_id]))[0]?.files?.map(({ path }) => path)).toEqual(["a.txt", "b.txt"]);
  expect(await waitingKeys(stage)).toEqual([]);
  await writeFile(join(workspace(agent_id), "b.txt"), "changed");
  expect(await parent.send(agent_id, "first", message)).toMatchObject({ status: "queued", run: 1 });
  await expect(
    parent.send(agent_id, "first", { ...message, files: [{ path: "b.txt", content: "other" }] }),
  ).rejects.toMatchObject({ code: "conflict" });
  await parent.send(agent_id, "second");
  await parent.waitAll([agent_id]);
  expect(await readFile(join(workspace(agent_id), "b.txt"), "utf8")).toBe("changed");
  expect(sent()).toHaveLength(2);
  expect(sent()[1]).not.toContain("were lost on the way");
});

test("an image reaches the model as a block behind the words, in every turn", async () => {
  const { parent, sent } = await open({ turns: [call("glob", { pattern: "*" }), say("A picture.")] });
  await parent.task({
    prompt: "What is this?",
    images: [{ base64: PNG.toString("base64") }, { base64: GIF.toString("base64"), media_type: "image/gif" }],
  });
  const block = (media_type: string, bytes: Buffer) => ({
    type: "image",
    source: { type: "base64", media_type, data: bytes.toString("base64") },
  });
  expect(sent()).toHaveLength(2);
  for (const messages of sent()) {
    expect(JSON.parse(`[${messages}]`)[0].content).toEqual([
      { type: "text", text: "What is this?" },
      block("image/png", PNG),
      block("image/gif", GIF),
    ]);
  }
});

const file = (path: string) => ({ files: [{ path, content: "x" }] });
const big = "x".repeat(ATTACHED_MAX_BYTES / 2);
const REFUSED: [string, object][] = [
  ["an absolute path", file("/etc/passwd")],
  ["a path that leads up", file("../other/workspace/a")],
  ["one that leads up and down again", file("a/../b")],
  ["an empty component", file("a//b")],
  ["a backslash", file("..\\a")],
  ["a line end", file("a\nb")],
  ["a name of a half-written file", file(".subagent-queue-draft-1")],
  ["a path that is too deep", file(`${"d/".repeat(40)}f`)],
  ["two files at one path", { files: [...file("a").files, ...file("a").files] }],
  ["a file where another has its directory", { files: [...file("a").files, ...file("a/b").files] }],
  ["content and base64", { files: [{ path: "a", content: "x", base64: "eA==" }] }],
  ["neither of them", { files: [{ path: "a" }] }],
  ["what is no base64", { files: [{ path: "a", base64: "e A=" }] }],
  ["too many files", { files: Array.from({ length: 65 }, (_, i) => ({ path: `f${i}`, content: "" })) }],
  ["too many bytes", { files: ["a", "b", "c"].map((path) => ({ path, content: big })) }],
  ["an image that is none", { images: [{ base64: Buffer.from("<svg></svg>!").toString("base64") }] }],
  ["an image of another type", { images: [{ base64: PNG.toString("base64"), media_type: "image/jpeg" }] }],
];

let unserved: Stage;
beforeAll(async () => {
  unserved = await openStage();
});

test.for(REFUSED)("%s is refused before anything is done", async ([, given]) => {
  const parent = unserved.parent("planner-7", { model: "offline-1" });
  await expect(parent.task({ prompt: "work", ...given })).rejects.toMatchObject({ code: "invalid_input" });
  expect(await parent.list()).toEqual([]);
  expect(await waitingKeys(unserved)).toEqual([]);
});

test("what a file would be run for, or would leave the workspace by a link, is not written, and the model is told", async () => {
  const { parent, sent, workspace, stage } = await open(
    { turns: [say("one"), say("two")] },
    { keep_alive: true },
  );
  const { agent_id } = await parent.spawn({ name: "keeper", ...file("a.txt") });
  await parent.send(agent_id, "first");
  await parent.waitAll([agent_id]);
  const outside = join(stage.workspaceRoot, "outside.txt");
  await symlink(outside, join(workspace(agent_id), "way-out"));
  await parent.send(agent_id, "second", {
    files: [...file("way-out").files, ...file(".git/hooks/pre-commit").files, ...file("fine.txt").files],
  });
  const [reply] = await parent.waitAll([agent_id]);
  expect(reply?.files?.map(({ path }) => path)).toEqual(["a.txt", "fine.txt"]);
  await expect(readFile(outside)).rejects.toThrow("ENOENT");
  expect(sent()[1]).toMatch(/could not be written: .*way-out.*outside.*\.git.*never written/);
});

test("an agent whose files are not on this machine any more is told so", async () => {
  const { parent, sent, stage } = await open({ turns: [say("one"), say("two")] }, { keep_alive: true });
  const { agent_id } = await parent.spawn({ name: "keeper", ...file("a.txt") });
  await parent.send(agent_id, "first");
  await parent.waitAll([agent_id]);
  await rm(join(stage.workspaceRoot, "default"), { recursive: true });
  await parent.send(agent_id, "second");
  await parent.waitAll([agent_id]);
  expect(sent()[1]).toContain("files that you wrote or were given earlier are not there any more");
});

test("an agent that continues an ended one has a new, empty workspace, and is told so if there were files", async () => {
  const file_path = "keep.md";
  const { parent, sent, workspace } = await open(
    {
      turns: [
        call("write_file", { file_path, content: "abc" }),
        say("one"),
        call("glob", { pattern: "*" }),
        say("two"),
      ],
    },
    { transcript_ms: 60_000 },
  );
  const first = await parent.task("write");
  expect(first.files).toMatchObject([{ path: file_path }]);
  const second = await parent.resume(first.agent_id, "look");
  const [reply] = await parent.waitAll([second.agent_id]);
  expect(reply?.files).toBeUndefined();
  expect(await readdir(workspace(second.agent_id))).toEqual([]);
  expect(sent().at(-1)).toContain(
    "Your work continues in a new workspace: files that you wrote or were given earlier are not there any more.",
  );
});

test("an agent that continues one which has only read is told of no files", async () => {
  const turns = [call("glob", { pattern: "*" }), say("one"), say("two")];
  const { parent, sent } = await open({ turns }, { transcript_ms: 60_000 });
  const first = await parent.task("look");
  const second = await parent.resume(first.agent_id, "and now?");
  expect(await parent.waitAny([second.agent_id])).toMatchObject({ status: "succeeded" });
  expect(sent()).toHaveLength(3);
  expect(sent().at(-1)).not.toContain("workspace");
});

test("an agent that has only talked, and whose one write was refused, is told of no files with its next message", async () => {
  const { parent, sent } = await open(
    { turns: [call("write_file", NOTE), say("one"), say("two")] },
    { keep_alive: true, permissions: { deny: ["write_file(note*)"] } },
  );
  const { agent_id } = await parent.spawn({ name: "talker" });
  await parent.send(agent_id, "first");
  expect(await parent.waitAll([agent_id])).toMatchObject([{ summary: "one" }]);
  await parent.send(agent_id, "second");
  expect(await parent.waitAll([agent_id])).toMatchObject([{ summary: "two" }]);
  expect(sent()[2]).not.toContain("not there any more");
});

test("what waits for an agent is bounded, and goes with it", async () => {
  const stage = await openStage();
  const parent = stage.parent("planner-7", { model: "offline-1" });
  const { agent_id } = await parent.spawn({ name: "hoarder" });
  const quarter = {
    files: [{ path: "quarter", base64: Buffer.alloc(ATTACHED_MAX_BYTES / 4).toString("base64") }],
  };
  for (let i = 0; i < 8; i++) await parent.send(agent_id, `message ${i}`, quarter);
  const full = async () => {
    for (let i = 8; i < 64; i++) await parent.send(agent_id, `message ${i}`, quarter);
  };
  await expect(full()).rejects.toMatchObject({ code: "inbox_full" });
  expect(await waitingKeys(stage)).toHaveLength(1);
  await parent.destroy(agent_id);
  expect(await waitingKeys(stage)).toEqual([]);
});

test("what came with a message and was lost in Redis is said to the model, and the run goes on", async () => {
  const stage = await openStage({ scenario: { turns: [say("Without it.")] } });
  const { model, heads } = recordingModel(stage.offline.url);
  const parent = stage.parent("planner-7", { model: "offline-1" });
  const { agent_id } = await parent.spawn({ name: "unlucky" });
  await parent.send(agent_id, "read it", file("a.txt"));
  await stage.redis.del(...(await waitingKeys(stage)));
  await stage.startWorker({ model });
  expect(await parent.waitAll([agent_id])).toMatchObject([{ status: "succeeded", summary: "Without it." }]);
  expect(heads[0]?.messages).toContain("were lost on the way");
});

test("a name that is no agent's finds no files", async () => {
  const { store } = await openStage();
  expect(await store.attached({ tenant: "t", parentId: "p", uid: newUid() }, ["spawn"])).toEqual([undefined]);
});

test("files that are named instead of sent are copied from a directory that is open to the worker, past all bounds of a message", async () => {
  const stage = await openStage({ scenario: { turns: [call("glob", { pattern: "**" }), say("Done.")] } });
  const base = await realpath(await mkdtemp(join(tmpdir(), "named-")));
  closeAtEnd(() => rm(base, { recursive: true, force: true }));
  const [opened, outside] = [join(base, "open"), join(base, "outside")];
  for (const path of [join(opened, ".ssh"), outside]) await mkdir(path, { recursive: true });
  const big = Buffer.alloc(6 * 1024 ** 2, 7);
  await writeFile(join(opened, "big.bin"), big);
  await writeFile(join(outside, "secret.txt"), "CANARY");
  for (const name of [".env", ".ssh/id_rsa"]) await writeFile(join(opened, name), "CANARY");
  await symlink(join(outside, "secret.txt"), join(opened, "link"));
  await link(join(opened, ".env"), join(opened, "second-name"));
  execFileSync("/usr/bin/mkfifo", [join(opened, "fifo")]);
  const huge = await openFile(join(opened, "huge.bin"), "w");
  await huge.truncate(16 * 1024 ** 2 + 1);
  await huge.close();
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model, roots: [{ path: opened, realPath: opened, mode: "ro" }] });
  const client = stage.client({ workspaceRoot: stage.workspaceRoot });
  const parent = stage.parent("planner-7", { client, model: "offline-1" });
  const refused = [
    ...[".env", ".ssh/id_rsa", "link", "second-name", "fifo", "huge.bin", "none", "."].map((name) =>
      join(opened, name),
    ),
    ...[join(outside, "secret.txt"), "/proc/self/environ", "/etc/passwd", `${opened}-evil/x`],
  ];
  const reply = await parent.task({
    prompt: "work",
    files: [
      { path: "in/big.bin", from: join(opened, "big.bin") },
      ...refused.map((from, n) => ({ path: `refused-${n}`, from })),
    ],
  });
  expect(reply.files).toEqual([{ path: "in/big.bin", size_bytes: big.length, sha256: sha256(big) }]);
  const told = heads[0]?.messages ?? "";
  expect(told).toContain(`in/big.bin\\" (${big.length} bytes)`);
  for (const from of refused) expect(told).toContain(JSON.stringify(JSON.stringify(from)).slice(1, -1));
  expect(told).not.toContain("CANARY");
  expect(told).toContain("has a second hard link");
  expect(told).toContain("has more than 16 MB");
});

test("links that an agent leaves lead what its parent sends or names nowhere else", async () => {
  const stage = await openStage({
    scenario: { turns: [call("glob", { pattern: "*" }), say("One."), say("Two.")] },
  });
  const opened = await realpath(await mkdtemp(join(tmpdir(), "linked-")));
  closeAtEnd(() => rm(opened, { recursive: true, force: true }));
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model, roots: [{ path: opened, realPath: opened, mode: "rw" }] });
  const parent = stage.parent("planner-7", { model: "offline-1", keep_alive: true });
  const { agent_id } = await parent.spawn({ name: "linker" });
  await parent.send(agent_id, "first");
  await parent.waitAll([agent_id]);
  const workspace = join(stage.workspaceRoot, "default/planner-7/agents", agent_id, "workspace");
  await writeFile(join(workspace, "own.txt"), "CANARY");
  await symlink(opened, join(workspace, "out"));
  await symlink(join(workspace, "own.txt"), join(opened, "back"));
  await parent.send(agent_id, "second", {
    files: [
      { path: "out/planted.txt", content: "x" },
      { path: "copy.txt", from: join(opened, "back") },
    ],
  });
  const [reply] = await parent.waitAll([agent_id]);
  expect(reply?.files?.map(({ path }) => path)).toEqual(["own.txt"]);
  await expect(readFile(join(opened, "planted.txt"))).rejects.toMatchObject({ code: "ENOENT" });
  expect(heads.at(-1)?.messages).toContain("is not in a directory that is open to this worker");
});

test.each([
  ["relative.txt", "an absolute path"],
  ["/srv/../etc/passwd", "an absolute path"],
  ["/srv/a\0b", "an absolute path"],
])("a reference such as %j is refused before anything is done", async (from, sentence) => {
  const { parent } = await open({ turns: [say("never")] });
  await expect(parent.task({ prompt: "work", files: [{ path: "a", from }] })).rejects.toMatchObject({
    code: "invalid_input",
    message: expect.stringContaining(sentence),
  });
});

test("files that come when only the time of the final call is left are written all the same", async () => {
  const stage = await openStage({
    scenario: { turns: [call("wait", {})], hand_back: say("Done.") },
  });
  const parent = stage.parent("planner-7", { model: "offline-1" });
  const wait = defineTool({
    name: "wait",
    description: "Waits until it is stopped.",
    input: z.object({}),
    usesWorkspace: false,
    async run(_input, { agentId, signal }) {
      await parent.send(agentId, "with a file", { files: [{ path: "late.txt", content: "late" }] });
      await whenAborted(signal);
    },
  });
  await stage.startWorker({ tools: [wait] });
  const reply = await parent.task({ prompt: "work", limits: { max_duration_ms: 2_000 } });
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_duration" });
  expect(reply.files).toEqual([{ path: "late.txt", size_bytes: 4, sha256: sha256("late") }]);
});

test("a run makes no directory until a tool writes, and none at all if no tool uses files", async () => {
  const stage = await openStage({
    scenario: [
      { match: { user: "think" }, turns: [call("look", {}), call("look", { again: true }), say("Thought.")] },
      { match: { user: "write" }, turns: [call("look", {}), call("write_file", NOTE), say("Written.")] },
    ],
  });
  const directories = async () => (await readdir(stage.workspaceRoot, { recursive: true })).sort();
  const seen: string[][] = [];
  const look = defineTool({
    ...{ name: "look", description: "Looks around.", usesWorkspace: false },
    input: z.object({ again: z.boolean().optional() }),
    run: async () => {
      seen.push(await directories());
      return "nothing";
    },
  });
  await stage.startWorker({ tools: [look] });
  const client = stage.client({ workspaceRoot: stage.workspaceRoot });
  const parent = stage.parent("planner-7", { client, model: "offline-1" });
  const thought = await parent.task({ prompt: "think" });
  expect(thought).toMatchObject({ status: "succeeded", tools_called: { look: 2 } });
  expect([...seen, await directories()]).toEqual([[], [], []]);
  const written = await parent.task({ prompt: "write" });
  expect(written).toMatchObject({ status: "succeeded", files: [{ path: NOTE.file_path }] });
  expect(seen.at(-1)).toEqual([]);
  expect(await directories()).toContain(
    join("default", "planner-7", "agents", written.agent_id, "workspace", NOTE.file_path),
  );
});
