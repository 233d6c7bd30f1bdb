/** Agents over HTTP: spawn, list, get, send, answer, finish, destroy; full text, transcript, resume and files. */

import { pipeline } from "node:stream/promises";
import { z } from "zod";
import { findAgent } from "../../../producer/agents.ts";
import { MessageInput } from "../../../producer/input.ts";
import { contextOf } from "../../../producer/parent.ts";
import { SpawnInput } from "../../../producer/spawn-input.ts";
import { filesOf, openFileOf } from "../../../producer/workspace-files.ts";
import { SubagentError } from "../../../shared/errors.ts";
import { replyIdOf } from "../../../shared/protocol/keys.ts";
import { NO_SUMMARY } from "../../../shared/protocol/reply.ts";
import { type OpenWorkspaceFile, piecesOf } from "../../../shared/workspace-files.ts";
import { type Route, type RouteCall, route } from "../route.ts";
import {
  Agent,
  AgentList,
  Answered,
  AnswerInput,
  Destroyed,
  FileList,
  Finishing,
  FullText,
  queryNumber,
  Resumed,
  ResumeInput,
  Sent,
  Spawned,
  Transcript,
} from "../schema.ts";

const AGENTS = "/v1/parents/{parent}/agents";
const AGENT = `${AGENTS}/{agent}`;
const tag = "agents";

/** The part of a transcript to read; see `Parent.transcript`. */
const PageQuery = z.strictObject({
  after: queryNumber(z.coerce.number().int().min(-1)).optional().describe("Only entries after this message."),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(500)
    .optional()
    .describe("Most entries, of whole messages; default 500."),
});

/** The rows of these routes. */
export const agentRoutes: readonly Route[] = [
  route({
    method: "post",
    path: AGENTS,
    id: "spawn",
    tag,
    says: "Makes an agent that waits for its first message.",
    scope: "spawn",
    body: SpawnInput,
    takesFiles: true,
    isRepeatable: true,
    answers: { 201: { says: "The agent, and the limits in force.", schema: Spawned } },
    async handle(call) {
      const key = sameKey(call, "request_key", call.body.request_key);
      const body = await call.parent().spawn({ ...(await call.traced()), ...call.body, ...key });
      return { status: 201, body, location: addressOf(call, body.agent_id) };
    },
  }),
  route({
    method: "get",
    path: AGENTS,
    id: "listAgents",
    tag,
    says: "The live agents, oldest first. Looking keeps no idle agent alive.",
    scope: "read",
    answers: { 200: { says: "The agents.", schema: AgentList } },
    handle: async (call) => ({ status: 200, body: { sub_agents: await call.parent().list() } }),
  }),
  route({
    method: "get",
    path: AGENT,
    id: "getAgent",
    tag,
    says: "One agent, also an ended one while its record is kept.",
    scope: "read",
    answers: { 200: { says: "The agent.", schema: Agent } },
    handle: async (call) => ({ status: 200, body: await call.parent().get(call.param("agent")) }),
  }),
  route({
    method: "delete",
    path: AGENT,
    id: "destroyAgent",
    tag,
    says: "Ends an agent at once, whatever it is doing.",
    scope: "spawn",
    answers: { 200: { says: "Why it has ended.", schema: Destroyed } },
    handle: async (call) => ({ status: 200, body: await call.parent().destroy(call.param("agent")) }),
  }),
  route({
    method: "post",
    path: `${AGENT}/messages`,
    id: "sendMessage",
    tag,
    says: "Gives an agent a message: it begins a run, or reaches the one that is going on.",
    scope: "spawn",
    body: MessageInput,
    takesFiles: true,
    isRepeatable: true,
    answers: { 202: { says: "Whether the message begins a run or reached one.", schema: Sent } },
    async handle(call) {
      const { text, message_id, ...more } = call.body;
      const key = sameKey(call, "message_id", message_id);
      return {
        status: 202,
        body: await call.parent().send(call.param("agent"), text, { ...more, ...key }),
      };
    },
  }),
  route({
    method: "post",
    path: `${AGENT}/answers`,
    id: "answerQuestion",
    tag,
    says: "Answers a question of an agent that waits. The same answer again to the question with this `question_id` is no mistake, also when the agent has ended, until the ack of its end.",
    scope: "spawn",
    body: AnswerInput,
    answers: { 200: { says: "What the agent does now.", schema: Answered } },
    async handle(call) {
      const { text, ...which } = call.body;
      return { status: 200, body: await call.parent().answer(call.param("agent"), text, which) };
    },
  }),
  route({
    method: "post",
    path: `${AGENT}/finish`,
    id: "finishAgent",
    tag,
    says: "Asks a run to hand back what it has found so far.",
    scope: "spawn",
    answers: { 202: { says: "What the agent does now.", schema: Finishing } },
    handle: async (call) => ({ status: 202, body: await call.parent().finish(call.param("agent")) }),
  }),
  route({
    method: "get",
    path: `${AGENT}/reply`,
    id: "readFullText",
    tag,
    says: "The full text of an agent's last run, even if the summary was cut; while it runs, its last text so far. 404 `not_found` before its first text.",
    scope: "read",
    answers: { 200: { says: "The text.", schema: FullText } },
    handle: async (call) => ({ status: 200, body: await fullTextOf(call) }),
  }),
  route({
    method: "get",
    path: `${AGENT}/transcript`,
    id: "readTranscript",
    tag,
    says: "An agent's conversation: messages, answers, calls and results. Kept while it lives, then until the ack of its end, or as long as its profile says.",
    scope: "read",
    query: PageQuery,
    answers: { 200: { says: "The conversation, oldest first.", schema: Transcript } },
    handle: async (call) => ({
      status: 200,
      body: await call.parent().transcript(call.param("agent"), call.query),
    }),
  }),
  route({
    method: "post",
    path: `${AGENT}/resume`,
    id: "resumeAgent",
    tag,
    says: "Goes on with the conversation of an agent that has ended: a new agent that begins with it, with limits of its own.",
    scope: "spawn",
    body: ResumeInput,
    isRepeatable: true,
    answers: { 201: { says: "The new agent; its reply comes into the channel.", schema: Resumed } },
    async handle(call) {
      const { text, request_key } = call.body;
      const key = sameKey(call, "request_key", request_key);
      const options = { ...(await call.traced()), ...key };
      const body = await call.parent().resume(call.param("agent"), text, options);
      return { status: 201, body, location: addressOf(call, body.agent_id) };
    },
  }),
  route({
    method: "get",
    path: `${AGENT}/files`,
    id: "listFiles",
    tag,
    says: "The files that an agent has left in its workspace, sorted by path.",
    scope: "read",
    answers: { 200: { says: "The files.", schema: FileList } },
    handle: async (call) => ({
      status: 200,
      body: { files: await filesOf(contextOf(call.parent()), call.param("agent"), call.signal) },
    }),
  }),
  route({
    method: "get",
    path: `${AGENT}/files/{path}`,
    id: "readFile",
    tag,
    says: "One of these files, as it is.",
    scope: "read",
    answers: { 200: { says: "The bytes.", media: "application/octet-stream" } },
    async handle(call) {
      const [agent, path] = [call.param("agent"), call.param("path")];
      const file = await openFileOf(await call.open(), call.address(), agent, path);
      try {
        await sendFile(call, file);
      } finally {
        await file.handle.close();
      }
      return "streamed";
    },
  }),
];

/** Returns the URL path of an agent of the parent in the path. */
export function addressOf({ param }: Pick<RouteCall, "param">, agentId: string): string {
  return AGENT.replace("{parent}", param("parent")).replace("{agent}", agentId);
}

/** Returns the request key of header or body, under its name in the body. Throws `invalid_input` if the two differ. */
export function sameKey<N extends string>(
  { idempotencyKey }: Pick<RouteCall, "idempotencyKey">,
  name: N,
  inBody: string | undefined,
): { [K in N]?: string } {
  if (idempotencyKey === undefined) return inBody === undefined ? {} : keyed(name, inBody);
  if (inBody === undefined || inBody === idempotencyKey) return keyed(name, idempotencyKey);
  throw new SubagentError("invalid_input", `Idempotency-Key and ${name} differ: send one of them.`);
}

function keyed<N extends string>(name: N, key: string): { [K in N]?: string } {
  const found: { [K in N]?: string } = {};
  found[name] = key;
  return found;
}

/** Sends a file at the client's speed, one piece in memory at a time. If the file becomes shorter, the connection ends. */
async function sendFile({ request, response }: RouteCall, file: OpenWorkspaceFile): Promise<void> {
  response
    // A browser must not open an agent's file as a page of this server.
    .set("Content-Disposition", "attachment")
    .set("Cache-Control", "no-store")
    .set("Content-Length", String(file.size))
    .type("application/octet-stream");
  if (request.method === "HEAD") response.end();
  else await pipeline(piecesOf(file), response);
}

async function fullTextOf(call: RouteCall): Promise<{ agent_id: string; run: number; text: string }> {
  const client = await call.open();
  const parent = call.address();
  return client.call(async (each) => {
    const { address, agentId } = await findAgent({ ...each, client, parent }, call.param("agent"));
    const record = await each.read(() => client.store.record(address));
    if (!record) throw new SubagentError("unknown_agent", "This parent has no such sub-agent any more.");
    const { run, progress = { summary: NO_SUMMARY }, status } = record;
    const whole = await each.read(() => client.store.fullText(address, replyIdOf(address.uid, run)));
    const isOver = run > 0 && (status === "ended" || status === "idle");
    const text = whole ?? (isOver || progress.summary !== NO_SUMMARY ? progress.summary : undefined);
    if (text === undefined) throw noTextYet(agentId, run);
    return { agent_id: agentId, run, text };
  });
}

/** Returns the refusal for an agent whose run has said nothing yet; a text in its place would look like its answer. */
function noTextYet(agentId: string, run: number): SubagentError {
  const sentence =
    run === 0
      ? `${agentId} has not run, so it has no reply: send it a message first.`
      : `${agentId} has said nothing in run ${run} yet: ask again later, or wait for its reply.`;
  return new SubagentError("not_found", sentence, { agent_id: agentId, run });
}
