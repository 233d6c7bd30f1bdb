// The fault tests about Redis: npm run test:redis-trouble -- [--long] [--kills <n>] [--seed <n>]
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { long: { type: "boolean" }, kills: { type: "string" }, seed: { type: "string" } },
});
const env = {
  ...process.env,
  ...(values.long && { TROUBLE: "long" }),
  ...(values.kills && { TROUBLE_KILLS: values.kills }),
  ...(values.seed && { TROUBLE_SEED: values.seed }),
};
const args = ["vitest", "run", "--project", "redis", "test/chaos/redis-"];
const child = spawn("npx", args, { stdio: "inherit", env });
child.once("close", (code) => process.exit(code ?? 1));
