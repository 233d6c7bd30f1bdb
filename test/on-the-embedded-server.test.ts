/** Every guard of the verbs, and some calls on top of them, once more on the embedded server. */
import { EMBEDDED_LONG, EMBEDDED_SUBSET } from "./setup/embedded-subset.ts";
import { inOneProcess } from "./setup/in-one-process.ts";

const isWhole = process.env.SUBAGENT_TEST_EMBEDDED === "whole";
inOneProcess(isWhole ? [...EMBEDDED_SUBSET, ...EMBEDDED_LONG] : EMBEDDED_SUBSET);
