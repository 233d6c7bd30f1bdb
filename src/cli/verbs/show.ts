/** `show`: prints one agent: its messages, timeline, reply and files. */
import type { Parent } from "../../producer/parent.ts";
import { type AgentRecord, isoTime, viewOf } from "../../shared/protocol/agent.ts";
import { type ContentBlock, isToolUse, textOf } from "../../shared/protocol/content.ts";
import { type AgentAddress, replyIdOf } from "../../shared/protocol/keys.ts";
import { UserEntry } from "../../shared/protocol/log.ts";
import { NO_SUMMARY, PROMPT_KEPT_CHARS } from "../../shared/protocol/reply.ts";
import { isClipped, jsonIn } from "../../shared/protocol/text.ts";
import type { TranscriptEntry } from "../../shared/protocol/transcript.ts";
import { type EventLine, readTimeline } from "../../shared/redis/events.ts";
import {
  type ActingFlags,
  AGENT_ID,
  actAsParent,
  actingOptions,
  answerCommand,
  noteQueuedWithoutWorker,
  parentIdOf,
  SEEN_PARENT,
} from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { findAgent, KEPT_MS, readInstallation, resolveParents } from "../local/parents.ts";
import { renderProviderWait } from "../local/wait.ts";
import { formatPlural, formatUsd } from "../terminal/numbers.ts";
import type { Style } from "../terminal/output.ts";
import { answerOf, questionFacts } from "../terminal/reply.ts";
import { hanging, lineCells, plain, plainLine, toJsonLine, wrap } from "../terminal/text.ts";
import { toldIn } from "./logs.ts";

const HELP = `
Examples:
  subagent-queue show data_collector
  subagent-queue show data_collector --parent planner-7 --json | jq -r .reply

Without --parent it searches the configured parent and every parent that the
verbs run and start created. The transcript of an ended agent and its whole
prompt are kept until its end is acked, or as long as its profile says. All else,
with the beginning of the prompt, is kept as long as the agent's record.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command, SEEN_PARENT)
    .argument("<agent_id>", AGENT_ID)
    .option(
      "--transcript",
      "also the whole conversation: messages, answers, tool calls and their results",
      false,
    )
    .addHelpText("after", HELP)
    .action(async (agentId: string, flags: ShowFlags) => done(await show(open("warn"), agentId, flags)));
};

interface ShowFlags extends ActingFlags {
  transcript: boolean;
}

/** The data that is shown of an agent. */
export interface AgentSheet {
  address: AgentAddress;
  record: AgentRecord;
  /** Messages of the parent, oldest first; without a transcript only the beginning of each run's prompt. */
  messages: string[];
  /** True if a message is kept only in part, its beginning. */
  isCut: boolean;
  /** Messages that its runs have not read yet, oldest first. */
  unread: string[];
  timeline: EventLine[];
  /** Full text of its last answer. */
  reply: string;
  /** Undefined: its workspace cannot be read here. */
  files: { path: string; size_bytes: number }[] | undefined;
  /** The whole conversation; only with --transcript. */
  transcript: TranscriptEntry[] | undefined;
}

/** Runs the command. Throws `unknown_agent`, `invalid_input` for --parent, `invalid_config`, `redis_unavailable`. */
async function show(context: CommandContext, agentId: string, flags: ShowFlags): Promise<number> {
  const { config, output } = context;
  const named = flags.parent === undefined ? undefined : parentIdOf(flags.parent);
  const read = await readInstallation(context, "show", async (reading) => {
    const { tenant, parentId } = config;
    const query = { configured: { tenant, parentId }, named, activeWithinMs: KEPT_MS.records };
    const parents = await resolveParents(reading, query);
    const { address, record } = await findAgent(reading, parents, agentId);
    const [conversation, inbox, timeline, whole] = await Promise.all([
      reading.store.conversationPart(address, userMessages, (keys) => keys),
      reading.store.inbox(address),
      readTimeline(reading.redis, reading.keys, address),
      reading.store.fullText(address, replyIdOf(address.uid, record.run)),
    ]);
    const reply = whole ?? record.progress?.summary ?? "";
    const unread = inbox.map(({ text }) => text);
    return { address, record, timeline, reply, ...askedIn(conversation, timeline), unread };
  });
  const acting = { json: true, parent: read.address.parentId };
  let files: AgentSheet["files"];
  let transcript: AgentSheet["transcript"];
  await actAsParent(context, "show", acting, async (session) => {
    const { parent } = session;
    noteQueuedWithoutWorker(session, [read.record]);
    if (read.record.status === "waiting")
      output.note(`${agentId} waits for an answer: ${answerCommand(session, agentId)}`);
    files = await parent.files(agentId).catch(() => undefined);
    if (flags.transcript) transcript = await wholeTranscript(parent, agentId);
    return EXIT.done;
  });
  const sheet: AgentSheet = { ...read, files, transcript };
  if (flags.json) output.result(toJsonLine(asJson(sheet)));
  else output.result(renderSheet(sheet, output.resultColumns, output.resultStyle));
  return EXIT.done;
}

/** Returns the keys of the user's messages in a log, oldest first. */
function userMessages(keys: readonly string[]): string[] {
  return keys.filter((key) => /^\d*[02468]$/.test(key)).sort((a, b) => Number(a) - Number(b));
}

/** Returns the messages of the parent, from the log or transcript if one is kept, else from the timeline. */
function askedIn(
  conversation: ReadonlyMap<string, string> | undefined,
  timeline: readonly EventLine[],
): Pick<AgentSheet, "messages" | "isCut"> {
  const whole = [...(conversation?.values() ?? [])]
    .flatMap((json) => UserEntry.safeParse(jsonIn(json)).data?.messages ?? [])
    .map(({ text }) => text);
  if (whole.length > 0) return { messages: whole, isCut: false };
  const messages = promptsIn(timeline);
  return { messages, isCut: messages.some((prompt) => isClipped(prompt, PROMPT_KEPT_CHARS)) };
}

async function wholeTranscript(parent: Parent, agentId: string): Promise<TranscriptEntry[]> {
  const entries: TranscriptEntry[] = [];
  let after: number | undefined;
  do {
    const page = await parent.transcript(agentId, after === undefined ? {} : { after });
    entries.push(...page.entries);
    after = page.next;
  } while (after !== undefined);
  return entries;
}

function promptsIn(timeline: readonly EventLine[]): string[] {
  return timeline.flatMap(({ events }) =>
    events.flatMap((event) => (event.type === "run_started" && event.prompt) || []),
  );
}

/** Returns the text of the last answer; empty if the agent goes on and its run has said nothing. */
function saidBy({ record: { status }, reply }: AgentSheet): string {
  return status !== "ended" && reply === NO_SUMMARY ? "" : reply;
}

/** Returns the sheet as the document of --json. */
export function asJson(sheet: AgentSheet): Record<string, unknown> {
  const { address, record, messages, unread, timeline, files, transcript } = sheet;
  const { agent_id, name, status, run, ended_reason, progress } = record;
  const { tenant, parentId: parent_id } = address;
  const { questions, provider_wait } = viewOf(record);
  const counters = {
    turns: progress?.turns ?? 0,
    tokens: progress?.tokens ?? 0,
    cost_usd: progress?.cost_usd ?? 0,
  };
  const events = timeline.flatMap(({ at, events }) => events.map((event) => ({ at, ...event })));
  const model = record.spec.model;
  const about = { tenant, parent_id, agent_id, name, status, ended_reason, run, model, ...counters };
  return {
    ...about,
    messages,
    unread,
    timeline: events,
    reply: saidBy(sheet),
    ...(progress?.output !== undefined && { output: progress.output }),
    ...(status !== "ended" && { questions, provider_wait }),
    files: files ?? null,
    ...(transcript && { transcript }),
  };
}

/** Note below prompts whose end is no longer kept. */
const REST_IS_GONE =
  "(the rest is not kept any more: the ack of the agent's end deleted it; transcript_ms in a profile keeps it longer)";

const WIDEST = 110;

/** Returns the sheet in lines; `columns` undefined: unwrapped. */
export function renderSheet(sheet: AgentSheet, columns: number | undefined, style: Style): string[] {
  const { address, record, messages, isCut, unread, timeline, files, transcript = [] } = sheet;
  const width = lineCells(columns, WIDEST);
  const part = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ["", style("bold", title), ...lines.map((line) => `  ${line}`)];
  const text = (body: string) => (body === "" ? [] : wrap(plain(body).trim(), width - 2));
  const dim = (line: string) => style("dim", line);
  const { progress, spec, status, ended_reason } = record;
  const { output } = progress ?? {};
  const summary = saidBy(sheet);
  const facts = [
    ended_reason ? `${status} (${ended_reason})` : status,
    `run ${record.run}`,
    `${progress?.turns ?? 0} of ${formatPlural(spec.limits.max_turns, "turn")}`,
    formatPlural(progress?.tokens ?? 0, "token"),
    formatUsd(progress?.cost_usd ?? 0),
    plainLine(spec.model),
  ].join(" · ");
  const left = (files ?? []).map(
    ({ path, size_bytes }) => `${plainLine(path)}  ${formatPlural(size_bytes, "byte")}`,
  );
  const created = isoTime(record.created_at);
  return [
    ...wrap(`${style("bold", plainLine(record.agent_id))}  ${plainLine(record.name)}`, width),
    ...wrap(`${facts} · created ${created} by ${address.parentId}`, width).map(dim),
    ...part("Asked", [...messages.flatMap(text), ...(isCut ? text(REST_IS_GONE).map(dim) : [])]),
    ...part("Asked, not yet read", unread.flatMap(text)),
    ...part(
      "Timeline",
      timeline
        .flatMap((line) => toldIn(line))
        .flatMap(({ time, said }) => hanging(`${dim(time)}  `, said, width - 2)),
    ),
    ...part("Waits", waitsOf(record).flatMap(text)),
    ...part(status === "ended" ? "Reply" : "Last text", text(answerOf({ output, summary }))),
    ...part("Files", left),
    ...part(
      "Transcript",
      transcript.flatMap((entry) => text(inWords(entry))),
    ),
  ];
}

/** Returns what a live agent waits for: the answers of its parent, or its provider. */
function waitsOf(record: AgentRecord): string[] {
  if (record.status === "ended") return [];
  const { questions = [], provider_wait } = viewOf(record);
  return [
    ...questions.map((question) => `${question.text}\n${questionFacts(question)}`),
    ...(provider_wait ? [renderProviderWait(provider_wait)] : []),
  ];
}

function saidIn(content: readonly ContentBlock[]): string {
  const calls = content.filter(isToolUse).map(({ name, input }) => `${name} ${JSON.stringify(input)}`);
  return [textOf(content), ...calls].filter((said) => said !== "").join("\n");
}

/** Returns one transcript entry in words, its message number first. */
function inWords(entry: TranscriptEntry): string {
  const { message, kind } = entry;
  switch (kind) {
    case "told":
    case "noticed":
      return `${message} ${kind}: ${entry.text}`;
    case "said":
      return `${message} said (${entry.stop_reason}): ${saidIn(entry.content)}`;
    case "called":
      return `${message} called ${entry.name} (${entry.tool_use_id})`;
    case "returned":
      return `${message} returned${entry.is_error ? " an error" : ""} (${entry.tool_use_id}): ${entry.content}`;
    case "left_out":
      return `${message} from here on requests leave out the results up to message ${entry.through}`;
    case "compacted":
      return `${message} compacted: this summary replaces all before message ${entry.before}: ${entry.text}`;
    case "failed":
      return `${message} failed: ${entry.problem}`;
  }
}
