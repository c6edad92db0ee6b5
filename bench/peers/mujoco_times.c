// Times of MuJoCo's smooth dynamics from C, as a server: see servers.py.
//
//   mujoco_times MODEL STATES
//
// MODEL is an MJCF file with contacts, constraints, actuation and passive forces off, STATES a text file of states (count;
// then q, v, a, tau per state) in MuJoCo's conventions. Copying a state in and a vector out belongs to each call.
// Lines read: "go N" times N walks over all states per algorithm, "check" gives the results of the first state.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mujoco/mujoco.h>

static mjModel* m;
static mjData* d;
static int nq, nv, count;
static mjtNum *states, *full, *result;

static const mjtNum* q_of(int i) { return states + (size_t)i * (nq + 3 * nv); }
static const mjtNum* v_of(int i) { return q_of(i) + nq; }
static const mjtNum* a_of(int i) { return v_of(i) + nv; }
static const mjtNum* tau_of(int i) { return a_of(i) + nv; }

static void copy(mjtNum* to, const mjtNum* from, int n) { memcpy(to, from, (size_t)n * sizeof(mjtNum)); }

// Positions and, where wanted, what velocities add: as little as the recursions after it need.
static void place(int i) {
  copy(d->qpos, q_of(i), nq);
  mj_kinematics(m, d);
  mj_comPos(m, d);
}

static void inverse(int i) {
  place(i);
  copy(d->qvel, v_of(i), nv);
  copy(d->qacc, a_of(i), nv);
  mj_comVel(m, d);
  mj_rne(m, d, 1, result);
}

static void inverse_whole(int i) {
  copy(d->qpos, q_of(i), nq);
  copy(d->qvel, v_of(i), nv);
  copy(d->qacc, a_of(i), nv);
  mj_inverse(m, d);
  copy(result, d->qfrc_inverse, nv);
}

static void mass(int i) {
  place(i);
  mj_crb(m, d);
}

static void mass_made(int i) {
  place(i);
  mj_makeM(m, d);
}

static void mass_full(int i) {
  mass(i);
  mj_fullM(m, d, full);
}

static void forward(int i) {
  place(i);
  mj_crb(m, d);
  mj_factorM(m, d);
  copy(d->qvel, v_of(i), nv);
  mj_comVel(m, d);
  mj_rne(m, d, 0, d->qfrc_bias);
  const mjtNum* tau = tau_of(i);
  for (int k = 0; k < nv; ++k) result[k] = tau[k] - d->qfrc_bias[k];
  mj_solveM(m, d, result, result, 1);
}

static void forward_whole(int i) {
  copy(d->qpos, q_of(i), nq);
  copy(d->qvel, v_of(i), nv);
  copy(d->qfrc_applied, tau_of(i), nv);
  mj_forward(m, d);
  copy(result, d->qacc, nv);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void times(const char* name, int walks, void (*call)(int), int last) {
  double* ns = malloc(sizeof(double) * (size_t)walks);
  for (int w = -1; w < walks; ++w) {  // the first walk warms up
    const double start = now();
    for (int i = 0; i < count; ++i) call(i);
    if (w >= 0) ns[w] = (now() - start) / count;
  }
  qsort(ns, (size_t)walks, sizeof(double), compare);
  printf("\"%s\": [%.2f, %.2f]%s", name, ns[0], ns[walks / 2], last ? "" : ", ");
  free(ns);
}

static void list(const char* name, const mjtNum* x, int n, int last) {
  printf("\"%s\": [", name);
  for (int i = 0; i < n; ++i) printf("%.17g%s", x[i], i + 1 < n ? ", " : "");
  printf("]%s", last ? "" : ", ");
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "mujoco_times MODEL STATES\n");
    return 2;
  }
  char error[1000] = "";
  m = mj_loadXML(argv[1], NULL, error, sizeof error);
  FILE* file = fopen(argv[2], "r");
  if (!m || !file || fscanf(file, "%d", &count) != 1) {
    fprintf(stderr, "cannot read the model or the states: %s\n", error);
    return 1;
  }
  d = mj_makeData(m);
  nq = (int)m->nq;
  nv = (int)m->nv;
  const size_t total = (size_t)count * (size_t)(nq + 3 * nv);
  states = malloc(total * sizeof(mjtNum));
  full = calloc((size_t)nv * (size_t)nv, sizeof(mjtNum));
  result = calloc((size_t)nv, sizeof(mjtNum));
  for (size_t i = 0; i < total; ++i) {
    if (fscanf(file, "%lf", &states[i]) != 1) {
      fprintf(stderr, "cannot read the states\n");
      return 1;
    }
  }
  fclose(file);
  char line[100];
  while (fgets(line, sizeof line, stdin)) {
    int walks = 0;
    printf("{");
    if (sscanf(line, "go %d", &walks) == 1 && walks > 0) {
      times("inverse dynamics/stages", walks, inverse, 0);
      times("inverse dynamics/mj_inverse", walks, inverse_whole, 0);
      times("mass matrix/mj_crb", walks, mass, 0);
      times("mass matrix/mj_makeM", walks, mass_made, 0);
      times("full mass matrix/mj_crb", walks, mass_full, 0);
      times("forward dynamics/stages", walks, forward, 0);
      times("forward dynamics/mj_forward", walks, forward_whole, 1);
    } else if (strncmp(line, "check", 5) == 0) {
      inverse(0);
      list("inverse dynamics/stages", result, nv, 0);
      inverse_whole(0);
      list("inverse dynamics/mj_inverse", result, nv, 0);
      mass_full(0);
      list("full mass matrix/mj_crb", full, nv * nv, 0);
      forward(0);
      list("forward dynamics/stages", result, nv, 0);
      forward_whole(0);
      list("forward dynamics/mj_forward", result, nv, 1);
    }
    printf("}\n");
    fflush(stdout);
  }
  mj_deleteData(d);
  mj_deleteModel(m);
  return 0;
}
