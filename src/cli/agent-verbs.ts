/** The grammar of the verbs about agents: each acts as one parent on the Redis of REDIS_URL. */
import type { Command } from "commander";
import type { ActingFlags } from "./acting.ts";
import type { AnswerFlags } from "./answer.ts";
import { openCommand, type Surroundings } from "./command.ts";
import { HELP, type Verb } from "./help.ts";
import type { RepliesFlags } from "./replies.ts";
import type { SpawnFlags } from "./spawn.ts";
import type { UsageFlags } from "./usage.ts";

const AGENT_ID = "the agent's id, as spawn and list print it";

/** Adds the verbs; `done` takes the exit code. Each is loaded when it is called. */
export function addAgentVerbs(
  program: Command,
  surroundings: Surroundings,
  done: (code: number) => void,
): void {
  addWriting(program, () => openCommand(surroundings, "warn"), done);
  addReading(program, () => openCommand(surroundings, "warn"), done);
}

type Open = () => ReturnType<typeof openCommand>;

function addWriting(program: Command, open: Open, done: (code: number) => void): void {
  acting(program, "spawn", "make an agent that waits for messages, and print its id")
    .argument("<name>", "what people call it; its id is made from it")
    .option("--description <text>", "what it is for")
    .option("--model <id>", "model, instead of the configured one")
    .option("--tools <names>", "exactly these tools, separated by commas")
    .option("--keep-alive", "take further messages after a reply", false)
    .option("--prompt <text>", "send this as the first message; - reads it from standard input")
    .action(async (name: string, flags: SpawnFlags) => {
      const { spawn } = await import("./spawn.ts");
      done(await spawn(open(), name, flags));
    });
  acting(program, "send", "give an agent a message")
    .argument("<agent_id>", AGENT_ID)
    .argument("<message>", "the message; - reads it from standard input")
    .action(async (agentId: string, message: string, flags: ActingFlags) => {
      const { send } = await import("./send.ts");
      done(await send(open(), agentId, message, flags));
    });
  acting(program, "answer", "give an agent the answer that it waits for")
    .argument("<agent_id>", AGENT_ID)
    .argument("<answer>", "the answer; - reads it from standard input")
    .option("--question <id>", "which question, as replies prints it; default: the oldest open one")
    .action(async (agentId: string, text: string, flags: AnswerFlags) => {
      const { answer } = await import("./answer.ts");
      done(await answer(open(), agentId, text, flags));
    });
  acting(program, "finish", "ask an agent to hand back what it has found so far")
    .argument("<agent_id>", AGENT_ID)
    .action(async (agentId: string, flags: ActingFlags) => {
      const { finish } = await import("./finish.ts");
      done(await finish(open(), agentId, flags));
    });
  acting(program, "destroy", "end an agent at once")
    .argument("<agent_id>", AGENT_ID)
    .action(async (agentId: string, flags: ActingFlags) => {
      const { destroy } = await import("./destroy.ts");
      done(await destroy(open(), agentId, flags));
    });
}

function addReading(program: Command, open: Open, done: (code: number) => void): void {
  acting(program, "list", "show the live agents").action(async (flags: ActingFlags) => {
    const { list } = await import("./list.ts");
    done(await list(open(), flags));
  });
  acting(program, "replies", "print what has come from the agents and is not acked yet")
    .option("--follow", "go on printing what comes, until Ctrl-C", false)
    .option("--ack", "take out of the channel what was printed", false)
    .action(async (flags: RepliesFlags) => {
      const { replies } = await import("./replies.ts");
      done(await replies(open(), flags));
    });
  acting(program, "watch", "show the live agents at work, until Ctrl-C; ends none of them").action(
    async (flags: ActingFlags) => {
      const { watch } = await import("./watch.ts");
      done(await watch(open(), flags));
    },
  );
  acting(program, "usage", "show what the agents' runs have used, in whole days (UTC)")
    .option("--since <when>", "2026-11-01, 2026-11-01T12:00:00Z or 7d; default: the last 90 days")
    .action(async (flags: UsageFlags) => {
      const { usage } = await import("./usage.ts");
      done(await usage(open(), flags));
    });
}

/** A verb with what all of them have. */
function acting(program: Command, verb: Verb, description: string): Command {
  return program
    .command(verb)
    .description(description)
    .option("--parent <id>", "the parent to act as, default SUBAGENT_PARENT or cli")
    .option("--json", "results as JSON on standard output, and nothing else there", false)
    .addHelpText("after", HELP[verb]);
}
