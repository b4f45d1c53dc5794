/* The compiled solver and generator: boards up to 10x10 (7x7 with -DSMALL, sooner), up to 10 agents. Integers alone: no
 * clock, no floating point, no randomness but SplitMix64.
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
 * it are never free, so moves are shifts. Memory comes from an arena that the next call reuses.
 * Ends early by longjmp: to `ended` when nodes are spent, to `over` when there is no plan (or no memory).
 */
#include "search.h"
#include "splits.h"

typedef struct {
    int32_t status, agent[2], best_sum, needs_wait, lengths[AGENTS];
    const char *moves; /* of all agents, one after the other; until the next call */
} Answer;

static void write_moves(const Paths *paths, Answer *answer)
{
    int total = 0;
    for (int i = 0; i < agents; i++)
        total += answer->lengths[i] = arrival(paths->cells[i], paths->count[i]);
    char *moves = get(total + 1);
    answer->moves = moves;
    for (int i = 0; i < agents; i++)
        for (int t = 0; t < answer->lengths[i]; t++) {
            int step = paths->cells[i][t + 1] - paths->cells[i][t];
            *moves++ = step == -width ? 'U' : step == width ? 'D' : step == -1 ? 'L' : step == 1 ? 'R' : 'W';
        }
    *moves = 0;
}

static void ask(int what, Answer *answer)
{
    Paths *paths = independent();
    int excess = 0;
    answer->needs_wait = answer->best_sum = 0;
    answer->moves = "";
    memset(answer->lengths, 0, sizeof answer->lengths);
    if (what == NEEDS_WAIT) {
        answer->needs_wait = !paths && wait_label();
        return;
    }
    if (!paths && what == SUM_OF_COSTS) {
        paths = best_sum();
        excess = excess_of(paths);
    } else if (!paths) {
        paths = best_makespan(&excess);
        if (what == ANALYSE) {
            if (excess < excess_of(paths))
                excess = excess_of(down_to(paths, excess));
            answer->needs_wait = excess > 0 && waits_needed(excess);
        }
    }
    if (what != MAKESPAN)
        answer->best_sum = distances + excess;
    write_moves(paths, answer);
}

/* Cells are as in a Set; `holes` are the low and the high half of one. */
int mapflake_solve(int size, uint64_t low, uint64_t high, int count, const Cell *starts, const Cell *goals, int what,
                   int64_t most, Answer *answer)
{
    jmp_buf spent;
    uint64_t holes[2] = {low, high};
    reason[0] = reason[1] = 0;
    answer->status = setjmp(over);
    if (answer->status == SOLVED) {
        ended = &spent;
        if (setjmp(spent)) {
            answer->status = BUDGET;
        } else {
            set_up(size, holes, count, starts, goals, most);
            ask(what, answer);
        }
    }
    answer->agent[0] = reason[0];
    answer->agent[1] = reason[1];
    return answer->status;
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

/* See kernel.py: returns the number of boards drawn, negative if none was right, 0 for no memory. Writes to `board` the cells
 * (row * size + col) of the holes, the starts and the goals, in this order. */
int mapflake_sample(uint64_t *state, int size, int holes, int count, int wanted, int buckets, int attempts, int64_t most,
                  Cell *board, int *dropped, Answer *answer)
{
    *dropped = 0;
    for (int attempt = 1; attempt <= attempts; attempt++) {
        Cell goals[CELLS], starts[AGENTS], ends[AGENTS];
        uint64_t low = 0, high = 0;
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
            int start = board[holes + k], goal = board[holes + count + k] = goals[k];
            starts[k] = (Cell)((start / size + 1) * (size + 1) + start % size);
            ends[k] = (Cell)((goal / size + 1) * (size + 1) + goal % size);
        }
        for (int h = 0; h < holes; h++) {
            int cell = (board[h] / size + 1) * (size + 1) + board[h] % size;
            *(cell < 64 ? &low : &high) |= (uint64_t)1 << (cell & 63);
        }
        /* What takes no search (most boards end here); the bucket; the label, which most boards do not have; then the plan. */
        int status = mapflake_solve(size, low, high, count, starts, ends, NEEDS_WAIT, 0, answer), known = status == SOLVED;
        int found = known ? wanted < 0 || answer->needs_wait == wanted : status == BUDGET;
        found = found && (buckets == ALL_BUCKETS || buckets >> bucket(size, board, holes, count) & 1);
        if (found && !known && wanted >= 0) {
            status = mapflake_solve(size, low, high, count, starts, ends, NEEDS_WAIT, most, answer);
            found = status == SOLVED && answer->needs_wait == wanted;
            *dropped += status == BUDGET;
        }
        if (found) {
            status = mapflake_solve(size, low, high, count, starts, ends, ANALYSE, most, answer);
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
