/* All agents. If three agents cannot meet a vector of costs, they cannot meet a smaller one either: it is kept as a nogood. */
#pragma once
#include "groups.h"

typedef struct {
    int costs[AGENTS], most;
} Vector;

typedef struct {
    Vector *at;
    size_t count, room;
} Vectors;

static int compare(const void *a, const void *b)
{
    const Vector *v = a, *w = b;
    if (v->most != w->most)
        return v->most < w->most ? -1 : 1;
    for (int i = 0; i < AGENTS; i++)
        if (v->costs[i] != w->costs[i])
            return v->costs[i] < w->costs[i] ? -1 : 1;
    return 0;
}

static void extend(Space *s, Vector *vector, int i, int left, int cap, int waits, Vectors *found)
{
    if (i == s->agents) {
        spend(s, 1);
        vector->most = 0;
        for (int k = 0; k < s->agents; k++)
            if (vector->costs[k] > vector->most)
                vector->most = vector->costs[k];
        found->at = grown(&s->arena, found->at, found->count, &found->room, sizeof *vector);
        found->at[found->count++] = *vector;
        return;
    }
    for (int extra = i + 1 == s->agents ? left : 0; extra <= left; extra += waits ? 1 : 2) {
        int cost = s->agent[i].distance + extra, other = 0;
        if (cap >= 0 && cost > cap)
            break;
        while (other < i && (waits ? meets(s, other, i, vector->costs[other], cost)
                                  : pair(s, other, i, vector->costs[other], cost, 0) != &never))
            other++;
        if (other == i) {
            vector->costs[i] = cost;
            extend(s, vector, i + 1, left - extra, cap, waits, found);
        }
    }
}

static Vectors vectors(Space *s, int excess, int cap, int waits)
{
    Vectors found = {0};
    Vector vector = {0};
    extend(s, &vector, 0, excess, cap, waits, &found);
    if (found.count)
        qsort(found.at, found.count, sizeof *found.at, compare);
    return found;
}

typedef const Table *Tables[AGENTS][AGENTS];

static int members(Space *s, const int *who, int count, const int *costs, int waits, Tables tables, Member *group)
{
    for (int k = 0; k < count; k++) {
        group[k] = (Member){.who = who[k], .cost = costs[who[k]], .layers = layers(s, who[k], costs[who[k]], waits)};
        for (int m = 0; m < k; m++)
            group[m].with[k] = tables[who[m]][who[k]] == &always ? NULL : tables[who[m]][who[k]];
    }
    return count;
}

/* Three agents of a group that failed which fail alone, or the group: what they cannot, they cannot for less. */
static void learn(Space *s, const int *who, int count, const int *costs, Tables tables)
{
    Nogood found = {.count = count};
    memcpy(found.who, who, count * sizeof *who);
    for (int a = 0; a < count && count > 3 && found.count == count; a++)
        for (int b = a + 1; b < count && found.count == count; b++)
            for (int c = b + 1; c < count && found.count == count; c++) {
                int i = who[a], j = who[b], k = who[c], three[3] = {i, j, k};
                if ((tables[i][j] != &always) + (tables[i][k] != &always) + (tables[j][k] != &always) < 2)
                    continue;
                Key key = 0;
                for (int m = 0; m < 3; m++)
                    key = key << 40 | (Key)costs[three[m]] << 8 | (Key)three[m];
                if (map_get(&s->possible, key))
                    continue;
                Member group[AGENTS];
                Paths paths;
                if (group_paths(s, group, members(s, three, 3, costs, 1, tables, group), &paths)) {
                    *map_at(&s->arena, &s->possible, key) = 1;
                } else {
                    found.count = 3;
                    memcpy(found.who, three, sizeof three);
                }
            }
    for (int m = 0; m < found.count; m++)
        found.costs[m] = costs[found.who[m]];
    s->nogoods = grown(&s->arena, s->nogoods, s->nogood_count, &s->nogood_room, sizeof found);
    s->nogoods[s->nogood_count++] = found;
}

static int ruled_out(Space *s, const int *costs)
{
    for (size_t n = 0; n < s->nogood_count; n++) {
        int m = 0;
        while (m < s->nogoods[n].count && costs[s->nogoods[n].who[m]] <= s->nogoods[n].costs[m])
            m++;
        if (m == s->nogoods[n].count)
            return 1;
    }
    return 0;
}

static Paths *find_paths(Space *s, const int *costs, int waits)
{
    if (waits && ruled_out(s, costs))
        return NULL;
    Tables tables;
    int group_of[AGENTS], order[AGENTS * AGENTS][3], count = 0;
    for (int i = 0; i < s->agents; i++)
        for (int j = i + 1; j < s->agents; j++) {
            int slack = costs[i] - s->agent[i].distance + costs[j] - s->agent[j].distance, at = count++;
            for (; at && order[at - 1][0] > slack; at--)
                memcpy(order[at], order[at - 1], sizeof *order);
            order[at][0] = slack;
            order[at][1] = i;
            order[at][2] = j;
        }
    for (int p = 0; p < count; p++) {
        int i = order[p][1], j = order[p][2];
        if ((tables[i][j] = pair(s, i, j, costs[i], costs[j], waits)) == &never)
            return NULL;
    }
    for (int i = 0; i < s->agents; i++)
        group_of[i] = i;
    for (int i = 0; i < s->agents; i++)
        for (int j = i + 1; j < s->agents; j++)
            for (int k = 0, from = group_of[j]; k < s->agents && tables[i][j] != &always; k++)
                if (group_of[k] == from)
                    group_of[k] = group_of[i];
    Paths *paths = get(&s->arena, sizeof *paths);
    for (int g = 0; g < s->agents; g++) {
        Member group[AGENTS];
        int who[AGENTS], count = 0;
        for (int i = 0; i < s->agents; i++)
            if (group_of[i] == g)
                who[count++] = i;
        if (count && !group_paths(s, group, members(s, who, count, costs, waits, tables, group), paths)) {
            if (waits && count > 2)
                learn(s, who, count, costs, tables);
            return NULL;
        }
    }
    return paths;
}
