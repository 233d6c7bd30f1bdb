/**
 * Values in the order in which they came; each can be taken out again by its link.
 *
 * For what comes and goes all the time in a process that lives long, in place of a `Set`. V8 moves a set that grows or shrinks
 * into a new table, and the old table goes on pointing to its values and to the new table. Once one of these tables is in
 * the old generation, all that was ever in a later one is kept, and copied twice, until the next full collection: a third of
 * what a busy worker spent on memory. A link that was taken out points to nothing.
 */
export class LinkedList<T> implements Iterable<T> {
  /** Before the first and behind the last link. */
  readonly #ends = new Link<T>();

  get isEmpty(): boolean {
    return this.#ends.next === this.#ends;
  }

  /** Adds `value` as the last one. */
  add(value: T): Link<T> {
    const link = new Link(value);
    link.insertBefore(this.#ends);
    return link;
  }

  /** What is in it at this moment: a caller may add and take out while it goes through them. */
  *[Symbol.iterator](): Iterator<T> {
    const values: T[] = [];
    for (let link = this.#ends.next; link !== this.#ends; link = link.next) values.push(link.value as T);
    yield* values;
  }

  /** Takes everything out. */
  clear(): void {
    while (!this.isEmpty) this.#ends.next.remove();
  }
}

/** A value's place in a list. */
export class Link<T> {
  value: T | undefined;
  next: Link<T> = this;
  #previous: Link<T> = this;

  constructor(value?: T) {
    this.value = value;
  }

  insertBefore(link: Link<T>): void {
    this.next = link;
    this.#previous = link.#previous;
    this.#previous.next = this;
    link.#previous = this;
  }

  /** Takes the value out of its list. Idempotent. */
  remove(): void {
    this.next.#previous = this.#previous;
    this.#previous.next = this.next;
    this.next = this;
    this.#previous = this;
    this.value = undefined;
  }
}
