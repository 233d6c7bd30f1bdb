// Runs the fault tests about Redis.
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

const USAGE = "Usage: npm run test:redis-trouble -- [--long] [--kills <n>] [--seed <n>]";

function valuesOf() {
  try {
    const options = { long: { type: "boolean" }, kills: { type: "string" }, seed: { type: "string" } };
    const { values } = parseArgs({ options });
    for (const name of ["kills", "seed"]) {
      const value = values[name];
      if (value !== undefined && !/^\d+$/.test(value)) {
        throw new Error(`--${name} must be a whole number, not "${value}".`);
      }
    }
    return values;
  } catch (error) {
    process.stderr.write(`${error.message}\n${USAGE}\n`);
    process.exit(2);
  }
}

const values = valuesOf();
const env = {
  ...process.env,
  ...(values.long && { TROUBLE: "long" }),
  ...(values.kills && { TROUBLE_KILLS: values.kills }),
  ...(values.seed && { TROUBLE_SEED: values.seed }),
};
const args = ["vitest", "run", "--project", "redis", "test/chaos/redis-"];
const child = spawn("npx", args, { stdio: "inherit", env });
child.once("close", (code) => process.exit(code ?? 1));
