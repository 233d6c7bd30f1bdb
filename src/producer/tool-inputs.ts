/** The inputs of the parent's tools as its model may give them; what they may hold is checked by the calls behind them. Pure. */
import { z } from "zod";

const agentId = z.string().describe("As spawn_sub_agent returned it");

/** One schema a tool, by its name. */
export const TOOL_INPUTS = {
  spawn_sub_agent: z.strictObject({
    name: z.string().describe('Display name; the agent_id is made from it, e.g. "data_collector"'),
    description: z.string().optional().describe("What it is for, in a few words"),
  }),
  send_agent_message: z.strictObject({
    target_agent_id: agentId,
    message: z.string().describe("Complete instructions: it knows nothing of this conversation"),
  }),
  list_sub_agents: z.strictObject({}),
  check_sub_agent: z.strictObject({ agent_id: agentId }),
  destroy_sub_agent: z.strictObject({ agent_id: agentId }),
  task: z.strictObject({
    prompt: z.string().describe("The whole task: it knows nothing of this conversation"),
  }),
  agent: z.strictObject({
    prompt: z.string().describe("The whole task: it knows nothing of this conversation"),
    tool_allowlist: z.array(z.string()).optional().describe("Exactly these tools; omit for all it may have"),
    model: z.string().optional().describe("Omit for your own"),
  }),
} as const;

/** A tool of the parent's model. */
export type ParentToolName = keyof typeof TOOL_INPUTS;

/** What the model is told about each tool. */
export const TOOL_DESCRIPTIONS: Record<ParentToolName, string> = {
  spawn_sub_agent:
    "Create a sub-agent with a conversation of its own. It waits for send_agent_message. At most 10 live at a time.",
  send_agent_message:
    "Give a sub-agent its instructions, a further message, or the answer it waits for. It works in the background; its final reply is forwarded to you.",
  list_sub_agents: "List your live sub-agents with their status. Those that have ended are not listed.",
  check_sub_agent:
    "Look at one sub-agent: its status and progress, and its reply if that has not reached you yet.",
  destroy_sub_agent: "End a sub-agent at once, whatever it is doing.",
  task: "Hand a task to a sub-agent with fresh context and wait for its summary. Files it writes stay.",
  agent:
    "Run a sub-agent to completion and get its final text (at most 5,000 characters). Use it for research whose steps you need not see.",
};
