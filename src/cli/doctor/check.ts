/** The form of a check: one kind of trouble, how bad it is, how it is said, and what to do about it. */
import type { Area } from "./report.ts";

/** See the module's sentence. */
export interface Check {
  area: Area;
  severity: "warn" | "error";
  /** The sentence for `count` of them. */
  what(count: number): string;
  todo: string;
  /** What `--fix` did about `count` of them; absent: it leaves them alone. */
  did?(count: number): string;
}
