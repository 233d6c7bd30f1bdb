/**
 * Every name this product uses in Redis, spelled once. All keys of a tenant and parent share one hash tag, so one
 * script may touch them together in a cluster; what every worker shares carries a tag of its own.
 */
import type { Wake } from "./wake.ts";

/** Whose agents: the owner of one hash tag. */
export interface ParentAddress {
  tenant: string;
  parentId: string;
}
/** One agent, wherever it is. */
export interface AgentAddress extends ParentAddress {
  uid: string;
}

/** The keys and channels of one parent. */
export interface ParentKeys {
  /** hash: agent_id → uid, and `#<stem>` → last number given. */
  registry: string;
  /** hash: uid of a live agent → its life key. */
  live: string;
  /** hash: `<day>/<counter>` → what the runs that ended on that day used. */
  usage: string;
  /** stream: replies that are not acked. */
  replies: string;
  /** channel: "there is a reply" (a hint). */
  doorbell: string;
  /** channel: progress events (hints). */
  events: string;
  /** string: what a spawn with this request key came to. */
  request(requestKey: string): string;
  /** string: the token of whoever acked this reply first. */
  ack(replyId: string): string;
  /** string: the full text of a reply. */
  text(replyId: string): string;
}

/** The keys of one agent. */
export interface AgentKeys {
  /** hash: the agent's record. */
  record: string;
  /** hash: the log, entries written once. */
  log: string;
  /** list: unread messages, oldest first. */
  inbox: string;
  /** string with the idle time as TTL; without TTL while the agent is not idle. */
  life: string;
  /** list: the content-free steps of the agent's runs. */
  steps: string;
  /** string: digest of a message that was accepted. */
  message(messageId: string): string;
}

/** All names under one prefix. */
export interface Keys {
  /** Prefix of BullMQ's own keys, with a hash tag. */
  bullPrefix: string;
  /** Name of the BullMQ queue that carries wakes. */
  wakeQueue: string;
  /** sorted set: member → when somebody must look (epoch ms). A hint; the records decide. */
  deadlines: string;
  /** hash: member → mark of its newest touch: until when a look may not be the last one (epoch ms). */
  touched: string;
  /** channel: the uid of an agent whose run must stop at once (a hint). */
  hints: string;
  /** set: ids of workers that announced themselves. */
  workers: string;
  /** string: what a worker announced; gone when it stops announcing. */
  worker(workerId: string): string;
  /** string: since when and why an operator paused the installation. */
  paused: string;
  /** set: names of the provider gates that are not healthy, and of some that were. */
  gates: string;
  /** hash: state of a provider gate that is not healthy. */
  gate(name: string): string;
  /** sorted set: run → end of its lease on a place (epoch ms). */
  gateHolders(name: string): string;
  /** sorted set: run → when it asks again (epoch ms). */
  gateWaiting(name: string): string;
  parent(address: ParentAddress): ParentKeys;
  agent(address: AgentAddress): AgentKeys;
}

/** The names under `prefix`; `saq` unless several installations share one Redis. */
export function keysUnder(prefix = "saq"): Keys {
  const tagged = ({ tenant, parentId }: ParentAddress) => `${prefix}:{${tenant}/${parentId}}`;
  return {
    bullPrefix: `{${prefix}}`,
    wakeQueue: "wakes",
    deadlines: `{${prefix}}:deadlines`,
    touched: `{${prefix}}:touched`,
    hints: `${prefix}:hints`,
    workers: `{${prefix}}:workers`,
    worker: (workerId) => `{${prefix}}:worker:${workerId}`,
    paused: `{${prefix}}:paused`,
    gates: `{${prefix}}:gates`,
    gate: (name) => `{${prefix}}:gate:${name}`,
    gateHolders: (name) => `{${prefix}}:gate-holders:${name}`,
    gateWaiting: (name) => `{${prefix}}:gate-waiting:${name}`,
    parent(address) {
      const tag = tagged(address);
      return {
        registry: `${tag}:registry`,
        live: `${tag}:live`,
        usage: `${tag}:usage`,
        replies: `${tag}:replies`,
        doorbell: `${tag}:doorbell`,
        events: `${tag}:events`,
        request: (requestKey) => `${tag}:request:${requestKey}`,
        ack: (replyId) => `${tag}:ack:${replyId}`,
        text: (replyId) => `${tag}:text:${replyId}`,
      };
    },
    agent(address) {
      const agent = `${tagged(address)}:agent:${address.uid}`;
      return {
        record: agent,
        log: `${agent}:log`,
        inbox: `${agent}:inbox`,
        life: `${agent}:life`,
        steps: `${agent}:steps`,
        message: (messageId) => `${agent}:message:${messageId}`,
      };
    },
  };
}

/** The member of the deadline set that stands for an agent. */
export function deadlineMember({ tenant, parentId, uid }: AgentAddress): string {
  return `${tenant}/${parentId}/${uid}`;
}

/** The agent for which a member of the deadline set stands; undefined for a foreign member. */
export function addressOfMember(member: string): AgentAddress | undefined {
  const [tenant, parentId, uid, ...rest] = member.split("/");
  return tenant && parentId && uid && rest.length === 0 ? { tenant, parentId, uid } : undefined;
}

/** Wake number `wake` (as scripts answer it) of an agent. */
export function wakeOf(
  { tenant, parentId, uid }: AgentAddress,
  agentId: string,
  wake: string,
): Omit<Wake, "v"> {
  return { tenant, parent_id: parentId, uid, agent_id: agentId, wake: Number(wake) };
}

/** The id of a wake's job. */
export function wakeJobId({ uid, wake }: Pick<Wake, "uid" | "wake">): string {
  return `${uid}.${wake}`;
}

/** The id of the reply of a run. */
export function replyIdOf(uid: string, run: number): string {
  return `${uid}.${run}`;
}
