/* The compiled solver and generator: boards up to 10x10 (7x7 with -DSMALL, sooner), up to 10 agents. Integers alone: no
 * clock, no floating point, no randomness but SplitMix64, and no memory that is written to but that of the space it is given.
 *
 * An increasing-cost-tree search (Sharon et al. 2013, "The increasing cost tree search for optimal multi-agent pathfinding"):
 * can agent i be on its goal for good by time costs[i], for all agents at once? For one vector of costs:
 *   board.h   layers: the cells where an agent can be at each time, reachable from its start and in time for its goal
 *   pairs.h   which two costs two agents can meet, and tables of the joint positions from which both still arrive
 *   groups.h  agents that can meet are searched together
 *   costs.h   all agents: which vectors no pair rules out, and the paths for one of them
 * search.h says in which order vectors are asked for, joint.h is A* over joint states for small crowded boards, splits.h the
 * hash that keeps splits apart (../splits.py in C: their results have to stay equal).
 *
 * A set of cells is one or two words: bit (row + 1) * (size + 1) + col. The column to the right of the board and the row above
 * it are never free, so moves are shifts. Memory comes from an arena that the next search in the same space reuses.
 * Ends early by longjmp: to `ended` when nodes are spent, to `over` when there is no plan (or no memory).
 */
#include "search.h"
#include "splits.h"

typedef struct {
    int32_t status, agent[2], best_sum, needs_wait;
    const char *moves; /* a word for each agent, with blanks between them; until the next search in the same space */
} Answer;

static void write_moves(Space *s, const Paths *paths, Answer *answer)
{
    int lengths[AGENTS], total = 0;
    for (int i = 0; i < s->agents; i++)
        total += 1 + (lengths[i] = arrival(paths->cells[i], paths->count[i]));
    char *moves = get(&s->arena, total);
    answer->moves = moves;
    for (int i = 0; i < s->agents; i++) {
        for (int t = 0; t < lengths[i]; t++) {
            int step = paths->cells[i][t + 1] - paths->cells[i][t];
            *moves++ = step == -s->width ? 'U' : step == s->width ? 'D' : step == -1 ? 'L' : step == 1 ? 'R' : 'W';
        }
        *moves++ = i + 1 < s->agents ? ' ' : 0;
    }
}

static void ask(Space *s, int what, Answer *answer)
{
    Paths *paths = independent(s);
    int excess = 0;
    answer->needs_wait = answer->best_sum = 0;
    answer->moves = &"         "[AGENTS - s->agents]; /* no moves */
    if (what == NEEDS_WAIT) {
        answer->needs_wait = !paths && wait_label(s);
        return;
    }
    if (!paths && what == SUM_OF_COSTS) {
        paths = best_sum(s);
        excess = excess_of(s, paths);
    } else if (!paths) {
        paths = best_makespan(s, &excess);
        if (what == ANALYSE) {
            if (excess < excess_of(s, paths))
                excess = excess_of(s, down_to(s, paths, excess));
            answer->needs_wait = excess > 0 && waits_needed(s, excess);
        }
    }
    if (what != MAKESPAN)
        answer->best_sum = s->distances + excess;
    write_moves(s, paths, answer);
}

Space *mapflake_space(void) { return calloc(1, sizeof(Space)); } /* NULL: no memory */

void mapflake_free(Space *s)
{
    for (Block *next = s->arena.first; next;) {
        Block *here = next;
        next = here->next;
        free(here);
    }
    free(s);
}

static int solve(Space *s, int size, Set holes, int count, const Cell *starts, const Cell *goals, int what, int64_t most,
                 Answer *answer)
{
    jmp_buf spent;
    s->reason[0] = s->reason[1] = 0;
    answer->status = setjmp(s->arena.over);
    if (answer->status == SOLVED) {
        s->ended = &spent;
        if (setjmp(spent)) {
            answer->status = BUDGET;
        } else {
            set_up(s, size, holes, count, starts, goals, most);
            ask(s, what, answer);
        }
    }
    answer->agent[0] = s->reason[0];
    answer->agent[1] = s->reason[1];
    return answer->status;
}

/* Cells are as in a Set, of which `low` and `high`, the holes, are the halves. */
int mapflake_solve(Space *s, int size, uint64_t low, uint64_t high, int count, const Cell *starts, const Cell *goals, int what,
                   int64_t most, Answer *answer)
{
    return solve(s, size, joined(low, high), count, starts, goals, what, most, answer);
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void choose(uint64_t *state, Cell *cells, int count, int first)
{
    for (int i = 0; i < first; i++) {
        int j = i + (int)((Key)random_bits(state) * (unsigned)(count - i) >> 64);
        Cell cell = cells[i];
        cells[i] = cells[j];
        cells[j] = cell;
    }
}

static int in_set(int cell, int size) { return (cell / size + 1) * (size + 1) + cell % size; } /* of row * size + col */

/* See kernel.py: returns the number of boards drawn, negative if none was right, 0 for no memory. Writes to `board` the cells
 * (row * size + col) of the holes, the starts and the goals, in this order. */
int mapflake_sample(Space *s, uint64_t *state, int size, int holes, int count, int wanted, int buckets, int attempts,
                    int64_t most, Cell *board, int *dropped, Answer *answer)
{
    *dropped = 0;
    for (int attempt = 1; attempt <= attempts; attempt++) {
        Cell goals[CELLS], starts[AGENTS], ends[AGENTS];
        Set taken = 0;
        for (int cell = 0; cell < size * size; cell++)
            board[cell] = (Cell)cell;
        choose(state, board, size * size, holes + count);
        int same = 1;
        while (same) {
            memcpy(goals, board + holes, size * size - holes);
            choose(state, goals, size * size - holes, count);
            same = 0;
            for (int k = 0; k < count; k++)
                same |= board[holes + k] == goals[k];
        }
        for (int k = 0; k < count; k++) {
            board[holes + count + k] = goals[k];
            starts[k] = (Cell)in_set(board[holes + k], size);
            ends[k] = (Cell)in_set(goals[k], size);
        }
        for (int h = 0; h < holes; h++)
            taken |= bit(in_set(board[h], size));
        /* What takes no search (most boards end here); the bucket; the label, which most boards do not have; then the plan. */
        int status = solve(s, size, taken, count, starts, ends, NEEDS_WAIT, 0, answer), known = status == SOLVED;
        int found = known ? wanted < 0 || answer->needs_wait == wanted : status == BUDGET;
        found = found && (buckets == ALL_BUCKETS || buckets >> bucket(size, board, holes, count) & 1);
        if (found && !known && wanted >= 0) {
            status = solve(s, size, taken, count, starts, ends, NEEDS_WAIT, most, answer);
            found = status == SOLVED && answer->needs_wait == wanted;
            *dropped += status == BUDGET;
        }
        if (found) {
            status = solve(s, size, taken, count, starts, ends, ANALYSE, most, answer);
            found = status == SOLVED;
            *dropped += status == BUDGET;
        }
        if (status == NO_MEMORY)
            return 0;
        if (found)
            return attempt;
    }
    return -attempts;
}
