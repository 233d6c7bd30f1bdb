/** The calls of one parent, each from its input to the part of the producer that does it. State is the room's. */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { ProgressEvent } from "../shared/protocol/event.ts";
import { newRequestKey, RequestKey } from "../shared/protocol/ids.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { MessageText } from "../shared/protocol/message.ts";
import { parseEvent } from "../shared/redis/event-channel.ts";
import { answerQuestion, oldestQuestion } from "./answering.ts";
import type { Client, OpenClient } from "./client.ts";
import { handOver, newReplies, unackedEntries } from "./forwarding.ts";
import { readInput } from "./input.ts";
import {
  destroyAgent,
  findAgent,
  finishAgent,
  getAgent,
  listAgents,
  readFullText,
  sendMessage,
} from "./managing.ts";
import type { Profile } from "./profile.ts";
import { pushedStream } from "./pushed-stream.ts";
import { type KINDS, prepareSpawn } from "./spawn-arguments.ts";
import { spawnAgent } from "./spawning.ts";
import { type AnswerQuestions, runTask } from "./task.ts";
import { runTasks } from "./task-all.ts";
import { type WaitOptions, waitAll, waitAny } from "./waiting.ts";
import { listFiles, readWorkspaceFile, type WorkspaceAddress } from "./workspace-files.ts";

/** What the calls of one parent share. */
export interface Room {
  profile: Profile;
  operator: Client["operator"];
  /** The opened client; throws `closed` after the parent's stop. */
  client(): OpenClient;
  /** Registers what the parent's stop ends; the returned function takes it back. */
  enter(end: (reason: unknown) => void): () => void;
}

interface Ending {
  signal?: AbortSignal | undefined;
}

const EVENTS_KEPT = 1_000;
const MAX_TASKS = 10_000;
const Message = z.object({ text: MessageText, message_id: RequestKey.default(() => newRequestKey()) });
const AnswerWish = z.object({ text: MessageText, questionId: z.string().min(1).max(512).optional() });
const UsageWish = z.strictObject({ since: z.coerce.date().min(new Date(0)).default(new Date(0)) });
const Tasks = z.array(z.unknown()).min(1, "give at least one task").max(MAX_TASKS);

interface TaskEnding extends Ending {
  onQuestion?: AnswerQuestions | undefined;
}

function prepared(
  { profile, operator, client }: Room,
  kind: keyof typeof KINDS,
  input: unknown,
  answersTask = false,
) {
  return prepareSpawn(kind, input, { profile, operator, prices: client().prices, answersTask });
}

async function found({ client: open, profile }: Room, agentId: string) {
  const client = open();
  const call = client.call();
  return [client, call, await findAgent(client, call, profile.parent, agentId)] as const;
}

/** Where the files of an agent are. Throws `invalid_config` for a client that was not told. */
function workspaceOf(
  { workspaceRoot }: OpenClient,
  address: AgentAddress,
  agentId: string,
): WorkspaceAddress {
  if (workspaceRoot !== undefined) return { root: workspaceRoot, address, agentId: agentId.trim() };
  throw new SubagentError(
    "invalid_config",
    "This client does not know where workspaces lie: give createClient the workers' workspaceRoot.",
  );
}

/** What is said to an agent: messages and answers. */
export function speakingCalls(room: Room) {
  return {
    async send(agentId: string, text: string, { message_id }: { message_id?: string } = {}) {
      const message = readInput(Message, { text, message_id }, "send");
      return sendMessage(...(await found(room, agentId)), {
        text: message.text,
        messageId: message.message_id,
      });
    },
    async answer(agentId: string, text: string, { questionId }: { questionId?: string } = {}) {
      const wish = readInput(AnswerWish, { text, questionId }, "answer");
      return answerQuestion(...(await found(room, agentId)), wish);
    },
    /** What a model says to an agent: the answer to the oldest question it waits with, else a message. */
    async tell(agentId: string, text: string) {
      const wish = readInput(Message, { text }, "send");
      const [client, call, agent] = await found(room, agentId);
      const questionId = await oldestQuestion(client, call, agent);
      if (questionId !== undefined)
        return answerQuestion(client, call, agent, { text: wish.text, questionId });
      return sendMessage(client, call, agent, { text: wish.text, messageId: wish.message_id });
    },
  };
}

/** Calls about single agents, answered within a second. */
export function managingCalls(room: Room) {
  const { profile, client: open } = room;
  const { parent } = profile;
  return {
    async spawn(input: unknown) {
      const ready = prepared(room, "spawn", input);
      const client = open();
      return (await spawnAgent(client, client.call(), profile, ready)).receipt;
    },
    async list() {
      const client = open();
      return listAgents(client, client.call(), parent);
    },
    get: async (agentId: string) => getAgent(...(await found(room, agentId))),
    destroy: async (agentId: string) => destroyAgent(...(await found(room, agentId))),
    finish: async (agentId: string) => finishAgent(...(await found(room, agentId))),
    /** An agent, and what has come from it and is not acked. */
    async check(agentId: string) {
      const [client, call, agent] = await found(room, agentId);
      const view = await getAgent(client, call, agent);
      const entries = await unackedEntries({ client, parent, open: room.enter }, agent.address.uid);
      return { view, news: handOver({ client, parent, open: room.enter }, entries) };
    },
    async files(agentId: string) {
      const [client, , { address }] = await found(room, agentId);
      return listFiles(workspaceOf(client, address, agentId));
    },
    async readFile(agentId: string, path: string) {
      const [client, , { address }] = await found(room, agentId);
      return readWorkspaceFile(workspaceOf(client, address, agentId), path);
    },
    async usage(options: { since?: Date | string } = {}) {
      const { since } = readInput(UsageWish, options, "usage");
      const client = open();
      return client.call().read(() => client.store.usage(parent, since.getTime()));
    },
    async fullText(replyId: string) {
      const client = open();
      return readFullText(client, client.call(), parent, replyId);
    },
  };
}

/** Calls that wait for runs to end. */
export function runningCalls(room: Room) {
  const { profile, client, enter } = room;
  return {
    async runTask(kind: "task" | "agent", input: unknown, { signal, onQuestion }: TaskEnding = {}) {
      const ready = prepared(room, kind, input, onQuestion !== undefined);
      return runTask({ client: client(), profile, signal, onQuestion, open: enter }, ready);
    },
    async taskAll(inputs: readonly unknown[], { signal, onQuestion }: TaskEnding = {}) {
      const wishes = readInput(Tasks, inputs, "taskAll").map((input) =>
        typeof input === "string" ? { prompt: input } : input,
      );
      const ready = wishes.map((wish) => prepared(room, "task", wish, onQuestion !== undefined));
      return runTasks({ client: client(), profile, signal, onQuestion, open: enter }, ready);
    },
    waitAny: async (agentIds: readonly string[], options: WaitOptions = {}) =>
      waitAny({ client: client(), profile, open: enter }, agentIds, options),
    waitAll: async (agentIds: readonly string[], options: WaitOptions = {}) =>
      waitAll({ client: client(), profile, open: enter }, agentIds, options),
  };
}

/** What comes from the agents: entries of the reply channel and progress. */
export function streamCalls({ profile, client: open, enter }: Room) {
  const { parent } = profile;
  return {
    newReplies: async (options: WaitOptions = {}) =>
      newReplies({ client: open(), parent, open: enter }, options),
    replies({ signal }: Ending = {}) {
      const { inbox } = open();
      const left = enter(() => stream.end());
      const stream = inbox.read(parent, { signal, onEnd: left });
      return stream;
    },
    events({ signal }: Ending = {}) {
      const { subscriber, store } = open();
      const left = enter(() => stream.end());
      let unwatch = () => {};
      const stream = pushedStream<ProgressEvent>({
        signal,
        capacity: EVENTS_KEPT,
        onEnd: () => {
          left();
          unwatch();
        },
      });
      if (signal?.aborted) return stream;
      unwatch = subscriber.watch(store.keys.parent(parent).events, {
        onMessage(text) {
          const event = parseEvent(text);
          if (event) stream.push(event);
        },
        onGap: () => {},
        onStop: () => stream.end(),
      });
      return stream;
    },
  };
}
