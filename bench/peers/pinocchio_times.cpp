// Times of Pinocchio's dynamics from C++, as a server: see servers.py.
//
//   pinocchio_times MODEL STATES
//
// MODEL is a text file of bodies (count; then parent, axis 0..2 or -1 for a free base, R, p, mass, com, inertia about the
// centre of mass), STATES one of states (count; then q, v, a, tau per state), both in Pinocchio's conventions.
// Lines read: "go N" times N walks over all states per algorithm, "check" gives the results of the first state.
// With FEW_JOINTS the model knows only the joints that the robots have, so that its headers compile in reasonable time.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "pinocchio/multibody.hpp"
#include "pinocchio/algorithm/aba.hpp"
#include "pinocchio/algorithm/cholesky.hpp"
#include "pinocchio/algorithm/crba.hpp"
#include "pinocchio/algorithm/rnea.hpp"

namespace pin = pinocchio;

#ifdef FEW_JOINTS
template<typename S, int O>
struct FewJoints
{
  typedef S Scalar;
  static constexpr int Options = O;
  typedef pin::JointModelRevoluteTpl<S, O, 0> JointModelRX;
  typedef pin::JointModelRevoluteTpl<S, O, 1> JointModelRY;
  typedef pin::JointModelRevoluteTpl<S, O, 2> JointModelRZ;
  typedef pin::JointModelFreeFlyerTpl<S, O> JointModelFreeFlyer;
  typedef boost::variant<JointModelRX, JointModelRY, JointModelRZ, JointModelFreeFlyer> JointModelVariant;
  typedef pin::JointDataRevoluteTpl<S, O, 0> JointDataRX;
  typedef pin::JointDataRevoluteTpl<S, O, 1> JointDataRY;
  typedef pin::JointDataRevoluteTpl<S, O, 2> JointDataRZ;
  typedef pin::JointDataFreeFlyerTpl<S, O> JointDataFreeFlyer;
  typedef boost::variant<JointDataRX, JointDataRY, JointDataRZ, JointDataFreeFlyer> JointDataVariant;
};
typedef pin::ModelTpl<double, 0, FewJoints> Model;
typedef pin::DataTpl<double, 0, FewJoints> Data;
typedef FewJoints<double, 0> Joints;
#else
typedef pin::Model Model;
typedef pin::Data Data;
typedef pin::JointCollectionDefaultTpl<double, 0> Joints;
#endif

typedef Eigen::VectorXd Vector;
typedef Eigen::Ref<const Vector> Ref; // what the shipped library is instantiated for

struct State
{
  Vector q, v, a, tau;
};

static Model read_model(const char * path)
{
  std::ifstream in(path);
  Model model;
  int count = 0;
  in >> count;
  for (int i = 0; i < count; ++i)
  {
    int parent, axis;
    Eigen::Matrix3d R, I;
    Eigen::Vector3d p, com;
    double mass;
    in >> parent >> axis;
    for (int k = 0; k < 9; ++k)
      in >> R(k / 3, k % 3);
    for (int k = 0; k < 3; ++k)
      in >> p[k];
    in >> mass;
    for (int k = 0; k < 3; ++k)
      in >> com[k];
    for (int k = 0; k < 9; ++k)
      in >> I(k / 3, k % 3);
    const pin::SE3 place(R, p);
    const std::string name = "joint" + std::to_string(i);
    const pin::JointIndex on = pin::JointIndex(parent + 1);
    pin::JointIndex joint = 0;
    if (axis < 0)
      joint = model.addJoint(on, typename Joints::JointModelFreeFlyer(), place, name);
    else if (axis == 0)
      joint = model.addJoint(on, typename Joints::JointModelRX(), place, name);
    else if (axis == 1)
      joint = model.addJoint(on, typename Joints::JointModelRY(), place, name);
    else
      joint = model.addJoint(on, typename Joints::JointModelRZ(), place, name);
    model.appendBodyToJoint(joint, pin::Inertia(mass, com, I), pin::SE3::Identity());
  }
  if (!in)
    throw std::runtime_error("cannot read the model");
  return model;
}

static std::vector<State> read_states(const char * path, const Model & model)
{
  std::ifstream in(path);
  size_t count = 0;
  in >> count;
  std::vector<State> states(count);
  for (State & s : states)
  {
    s.q.resize(model.nq);
    for (Vector * x : {&s.v, &s.a, &s.tau})
      x->resize(model.nv);
    for (Vector * x : {&s.q, &s.v, &s.a, &s.tau})
      for (Eigen::Index i = 0; i < x->size(); ++i)
        in >> (*x)[i];
  }
  if (!in)
    throw std::runtime_error("cannot read the states");
  return states;
}

static double sink = 0;

template<typename Call>
static void times(const char * name, int walks, const std::vector<State> & states, Call call, bool last = false)
{
  using clock = std::chrono::steady_clock;
  std::vector<double> ns;
  for (int i = 0; i <= walks; ++i)
  {
    const auto start = clock::now();
    for (const State & s : states)
      call(s);
    const std::chrono::duration<double, std::nano> taken = clock::now() - start;
    if (i > 0) // the first walk warms up
      ns.push_back(taken.count() / double(states.size()));
  }
  std::sort(ns.begin(), ns.end());
  std::printf("\"%s\": [%.2f, %.2f]%s", name, ns.front(), ns[ns.size() / 2], last ? "" : ", ");
}

static void list(const char * name, const double * x, Eigen::Index n, bool last = false)
{
  std::printf("\"%s\": [", name);
  for (Eigen::Index i = 0; i < n; ++i)
    std::printf("%.17g%s", x[i], i + 1 < n ? ", " : "");
  std::printf("]%s", last ? "" : ", ");
}

int main(int argc, char ** argv)
{
  if (argc != 3)
  {
    std::fprintf(stderr, "pinocchio_times MODEL STATES\n");
    return 2;
  }
  const Model model = read_model(argv[1]);
  const std::vector<State> states = read_states(argv[2], model);
  Data data(model);
  data.M.setZero();
  Eigen::MatrixXd full(model.nv, model.nv);
  Vector x(model.nv);

  auto rnea = [&](const State & s) { sink += pin::rnea(model, data, Ref(s.q), Ref(s.v), Ref(s.a))[0]; };
  auto crba = [&](const State & s, pin::Convention c) { sink += pin::crba(model, data, Ref(s.q), c)(0, 0); };
  auto whole = [&](const State & s, pin::Convention c) {
    crba(s, c);
    full = data.M.selfadjointView<Eigen::Upper>();
  };
  auto aba = [&](const State & s, pin::Convention c) {
    sink += pin::aba(model, data, Ref(s.q), Ref(s.v), Ref(s.tau), c)[0];
  };
  auto factorised = [&](const State & s, pin::Convention c) {
    pin::crba(model, data, Ref(s.q), c);
    x = s.tau - pin::nonLinearEffects(model, data, Ref(s.q), Ref(s.v));
    pin::cholesky::decompose(model, data);
    pin::cholesky::solve(model, data, x);
    sink += x[0];
  };
  const pin::Convention local = pin::Convention::LOCAL, world = pin::Convention::WORLD;

  std::string line;
  while (std::getline(std::cin, line))
  {
    std::istringstream words(line);
    std::string word;
    int walks = 0;
    words >> word >> walks;
    std::printf("{");
    if (word == "go")
    {
      times("inverse dynamics/rnea", walks, states, rnea);
      times("mass matrix/crba, local", walks, states, [&](const State & s) { crba(s, local); });
      times("mass matrix/crba, world", walks, states, [&](const State & s) { crba(s, world); });
      times("full mass matrix/crba, local", walks, states, [&](const State & s) { whole(s, local); });
      times("full mass matrix/crba, world", walks, states, [&](const State & s) { whole(s, world); });
      times("forward dynamics/aba, local", walks, states, [&](const State & s) { aba(s, local); });
      times("forward dynamics/aba, world", walks, states, [&](const State & s) { aba(s, world); });
      times("forward dynamics/factorised", walks, states, [&](const State & s) { factorised(s, local); }, true);
    }
    else if (word == "check")
    {
      const State & s = states[0];
      rnea(s);
      list("inverse dynamics/rnea", data.tau.data(), model.nv);
      for (pin::Convention c : {local, world})
      {
        const bool first = c == local;
        whole(s, c);
        list(first ? "full mass matrix/crba, local" : "full mass matrix/crba, world", full.data(), full.size());
        aba(s, c);
        list(first ? "forward dynamics/aba, local" : "forward dynamics/aba, world", data.ddq.data(), model.nv);
      }
      factorised(s, local);
      list("forward dynamics/factorised", x.data(), model.nv, true);
    }
    std::printf("}\n");
    std::fflush(stdout);
  }
  return sink == 0.123456789; // keeps the results needed
}
