/** Runs the CLI program on the installation of a stage, without this process's environment variables. */
import type { Stage } from "../stage/stage.ts";
import { runHere } from "./program.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
/** Removes all environment variables that the program reads. */
export const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

/** Returns the context of a program on an installation: it acts as the parent of the first agents. */
export function placeOn({ url, prefix, workspaceRoot }: Stage) {
  const env = {
    ...CLEAN,
    REDIS_URL: url,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_WORKSPACES: workspaceRoot,
    SUBAGENT_PARENT: "parent-0",
    SUBAGENT_LOG_LEVEL: "silent",
  };
  return { cwd: process.cwd(), env };
}

/** Returns a function that runs the program on the stage with the given arguments. */
export function programOn(stage: Stage) {
  return (...args: string[]) => runHere(args, placeOn(stage));
}
