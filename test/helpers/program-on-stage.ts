/** The program on the installation of a stage, away from the variables of this process. */
import type { Stage } from "../stage/stage.ts";
import { runHere } from "./program.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
/** Takes every variable away that the program reads. */
export const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

/** Where the program runs on an installation, as the parent of its first agents. */
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

/** The program there. */
export function programOn(stage: Stage) {
  return (...args: string[]) => runHere(args, placeOn(stage));
}
