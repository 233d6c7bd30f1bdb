/** `mcp`: serves a parent's tools to an MCP client over standard input and output. */
import { serveMcpStdio } from "../../service/mcp/stdio.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import { actAsParent, parentOption } from "../as-parent.ts";
import { type DefineCommand, EXIT } from "../command.ts";

const HELP = `
The client starts it; its log goes to stderr. subagent-queue api serves the same over HTTP, at /mcp.
It ends when its input ends: a request under way then gets no answer, but its agents go on, and replies stay in the channel.

Example, the configuration of a client:
  {"mcpServers": {"subagents": {"command": "npx", "args": ["subagent-queue", "mcp"],
    "env": {"REDIS_URL": "redis://127.0.0.1:6379"}}}}`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  parentOption(command)
    .addHelpText("after", HELP)
    .action(async (flags: { parent?: string }) => {
      const context = open("warn");
      const code = await actAsParent(context, "mcp", { ...flags, json: true }, async ({ parent }) => {
        const { clock, logger, signal } = context;
        const { close, closed } = serveMcpStdio(parent, {
          clock,
          logger,
          input: process.stdin,
          output: process.stdout,
        });
        await Promise.race([whenAborted(signal), closed]);
        await close();
        return EXIT.done;
      });
      done(code);
    });
};
