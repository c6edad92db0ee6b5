// What the programs that time Pinocchio share: the joints, reading models and states, timing and printing.
//
// A model is a text of bodies (count; then parent, axis 0..2 or -1 for a free base, R, p, mass, com, inertia about the centre
// of mass), states are a text too (count; then q, v, a, tau per state), both in Pinocchio's conventions.
// With FEW_JOINTS Pinocchio knows only the joints that the robots have, so that its headers compile in reasonable time.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef FEW_JOINTS
#include <boost/variant.hpp>

#include "pinocchio/multibody/fwd.hpp"

namespace pinocchio
{
  template<typename, int, int>
  struct JointModelRevoluteTpl;
  template<typename, int, int>
  struct JointDataRevoluteTpl;
  template<typename, int>
  struct JointModelFreeFlyerTpl;
  template<typename, int>
  struct JointDataFreeFlyerTpl;

  template<>
  struct JointCollectionDefaultTpl<double, 0>
  {
    typedef double Scalar;
    static constexpr int Options = 0;
    typedef JointModelRevoluteTpl<double, 0, 0> JointModelRX;
    typedef JointModelRevoluteTpl<double, 0, 1> JointModelRY;
    typedef JointModelRevoluteTpl<double, 0, 2> JointModelRZ;
    typedef JointModelFreeFlyerTpl<double, 0> JointModelFreeFlyer;
    typedef boost::variant<JointModelRX, JointModelRY, JointModelRZ, JointModelFreeFlyer> JointModelVariant;
    typedef JointDataRevoluteTpl<double, 0, 0> JointDataRX;
    typedef JointDataRevoluteTpl<double, 0, 1> JointDataRY;
    typedef JointDataRevoluteTpl<double, 0, 2> JointDataRZ;
    typedef JointDataFreeFlyerTpl<double, 0> JointDataFreeFlyer;
    typedef boost::variant<JointDataRX, JointDataRY, JointDataRZ, JointDataFreeFlyer> JointDataVariant;
  };
} // namespace pinocchio
#endif

#include "pinocchio/multibody.hpp"

namespace pin = pinocchio;

typedef pin::Model Model;
typedef pin::Data Data;
typedef pin::JointCollectionDefaultTpl<double, 0> Joints;

typedef Eigen::VectorXd Vector;
typedef Eigen::Ref<const Vector> Ref; // what the shipped library is instantiated for

struct State
{
  Vector q, v, a, tau;
};

static pin::SE3 read_place(std::istream & in)
{
  Eigen::Matrix3d R;
  Eigen::Vector3d p;
  for (int k = 0; k < 9; ++k)
    in >> R(k / 3, k % 3);
  for (int k = 0; k < 3; ++k)
    in >> p[k];
  return pin::SE3(R, p);
}

static Model read_model(const char * path)
{
  std::ifstream in(path);
  Model model;
  int count = 0;
  in >> count;
  for (int i = 0; i < count; ++i)
  {
    int parent, axis;
    Eigen::Matrix3d I;
    Eigen::Vector3d com;
    double mass;
    in >> parent >> axis;
    const pin::SE3 place = read_place(in);
    in >> mass;
    for (int k = 0; k < 3; ++k)
      in >> com[k];
    for (int k = 0; k < 9; ++k)
      in >> I(k / 3, k % 3);
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
static bool first = true; // of the entries of an answer

static void begin()
{
  std::printf("{");
  first = true;
}

static void end()
{
  std::printf("}\n");
  std::fflush(stdout);
}

static void key(const std::string & name)
{
  std::printf("%s\"%s\": ", first ? "" : ", ", name.c_str());
  first = false;
}

template<typename Call>
static void times(const std::string & name, int walks, const std::vector<State> & states, Call call)
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
  key(name);
  std::printf("[%.2f, %.2f]", ns.front(), ns[ns.size() / 2]);
}

static void list(const std::string & name, const double * x, Eigen::Index n)
{
  key(name);
  std::printf("[");
  for (Eigen::Index i = 0; i < n; ++i)
  {
    if (std::isfinite(x[i]))
      std::printf("%.17g", x[i]);
    else
      std::printf("NaN");
    std::printf("%s", i + 1 < n ? ", " : "");
  }
  std::printf("]");
}
