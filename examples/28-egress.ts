/** Commands in a sandbox: their only network access is a proxy to the hosts that the operator allows. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createParent } from "subagent-queue";
import { bashTool, chooseRunner } from "subagent-queue/worker";
import { setUp } from "./setup.ts";

const shop = createServer((_, response) => response.end("3 orders\n"));
await new Promise<void>((resolve) => void shop.listen(0, "127.0.0.1", resolve));
const host = `127.0.0.1:${(shop.address() as AddressInfo).port}`;

// Addresses outside of the public internet must be allowed separately.
const { runner, sentence } = await chooseRunner({ egress: { hosts: host, ranges: "127.0.0.0/8" } });
if (!runner) throw new Error(sentence);

const command = `curl -s http://${host}/orders
curl -s -o /dev/null -w "%{http_code}\\n" http://example.com/`;
const { client, parentId, stop } = await setUp({
  worker: { tools: [bashTool(runner)] },
  // The offline model's rules run no commands.
  offline: {
    turns: [
      { content: [{ type: "tool_use", name: "bash", input: { command } }] },
      { content: [{ type: "text", text: "{{last_tool_result}}" }] },
    ],
  },
});
const parent = createParent({ client, parentId });

// A rule limits the commands of one agent; the list of hosts belongs to the worker.
const permissions = { allow: ["Bash(curl *)"] };
const { status, summary } = await parent.task({ prompt: "How many orders are there?", permissions });
console.log(status);
console.log(summary);

await parent.stop();
await stop();
shop.close();
