// Times of Pinocchio's analytic derivatives from C++, as a server: see derivatives.py.
//
//   pinocchio_derivatives MODEL STATES CONSTRAINTS
//
// Without constraints (a count of 0) those of inverse and forward dynamics, else those of constrained dynamics, which takes
// constrained dynamics before it. Lines read:
//   "go N"     times N walks over all states per algorithm
//   "check"    the results of the first state, whose matrices are listed column by column

#include "pinocchio_rigid.hpp"

#include "pinocchio/algorithm/aba-derivatives.hpp"
#include "pinocchio/algorithm/rnea-derivatives.hpp"

#ifdef PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION
// What the shipped library holds, by its symbols: the headers declare these three inline, so that a call by name would compile
// all of Pinocchio's joints again, for minutes, and not time the library.
typedef Eigen::MatrixBase<Vector> Base;
void init_constrained(const Model &, Data &, const Rigids &, const RigidDatas &) asm(
  "_ZN9pinocchio22initConstraintDynamicsIdLi0ENS_25JointCollectionDefaultTplENS_23RigidConstraintModelT"
  "plIdLi0EEESaIS3_ENS_22RigidConstraintDataTplIdLi0EEESaIS6_EEEvRKNS_8ModelTplIT_XT0_ET1_EERNS_7DataTp"
  "lIS9_XT0_ESA_EERKSt6vectorIT2_T3_ERKSH_IT4_T5_E");
const Vector & constrained_dynamics(
  const Model &, Data &, const Base & q, const Base & v, const Base & tau, const Rigids &, RigidDatas &, Settings &) asm(
  "_ZN9pinocchio18constraintDynamicsIdLi0ENS_25JointCollectionDefaultTplEN5Eigen6MatrixIdLin1ELi1ELi0EL"
  "in1ELi1EEES4_S4_SaINS_23RigidConstraintModelTplIdLi0EEEESaINS_22RigidConstraintDataTplIdLi0EEEEEERKN"
  "S_7DataTplIT_XT0_ET1_E17TangentVectorTypeERKNS_8ModelTplISC_XT0_ESD_EERSE_RKNS2_10MatrixBaseIT2_EERK"
  "NSN_IT3_EERKNSN_IT4_EERKSt6vectorINS5_ISC_XT0_EEET5_ERS10_INS8_ISC_XT0_EEET6_ERNS_19ProximalSettings"
  "TplISC_EE");
void constrained_derivatives(const Model &, Data &, const Rigids &, RigidDatas &, const Settings &) asm(
  "_ZN9pinocchio36computeConstraintDynamicsDerivativesIdLi0ENS_25JointCollectionDefaultTplESaINS_23Rigi"
  "dConstraintModelTplIdLi0EEEESaINS_22RigidConstraintDataTplIdLi0EEEEEEvRKNS_8ModelTplIT_XT0_ET1_EERNS"
  "_7DataTplIS9_XT0_ESA_EERKSt6vectorINS2_IS9_XT0_EEET2_ERSH_INS5_IS9_XT0_EEET3_ERKNS_19ProximalSetting"
  "sTplIS9_EE");
#else
#include "pinocchio/algorithm/constrained-dynamics-derivatives.hpp"

static void init_constrained(const Model & model, Data & data, const Rigids & held, const RigidDatas & datas)
{
  pin::initConstraintDynamics(model, data, held, datas);
}

static const Vector & constrained_dynamics(
  const Model & model, Data & data, const Vector & q, const Vector & v, const Vector & tau, const Rigids & held, RigidDatas & datas,
  Settings & settings)
{
  return pin::constraintDynamics(model, data, q, v, tau, held, datas, settings);
}

static void constrained_derivatives(const Model & model, Data & data, const Rigids & held, RigidDatas & datas, const Settings & how)
{
  pin::computeConstraintDynamicsDerivatives(model, data, held, datas, how);
}
#endif

static void matrix(const std::string & name, const Eigen::MatrixXd & x)
{
  list(name, x.data(), x.size());
}

int main(int argc, char ** argv)
{
  if (argc != 4)
  {
    std::fprintf(stderr, "pinocchio_derivatives MODEL STATES CONSTRAINTS\n");
    return 2;
  }
  const Model model = read_model(argv[1]);
  const std::vector<State> states = read_states(argv[2], model);
  const Rigids constraints = read_constraints(argv[3], model);
  RigidDatas datas;
  for (const Rigid & c : constraints)
    datas.emplace_back(c.createData());
  Data data(model), held(model);
  init_constrained(model, held, constraints, datas);

  auto inverse = [&](const State & s) {
    pin::computeRNEADerivatives(model, data, Ref(s.q), Ref(s.v), Ref(s.a));
    sink += data.dtau_dq(0, 0);
  };
  auto forward = [&](const State & s) {
    pin::computeABADerivatives(model, data, Ref(s.q), Ref(s.v), Ref(s.tau));
    sink += data.ddq_dq(0, 0);
  };
  auto constrained = [&](const State & s, Settings settings) {
    constrained_dynamics(model, held, s.q, s.v, s.tau, constraints, datas, settings);
    constrained_derivatives(model, held, constraints, datas, settings);
    sink += held.ddq_dq(0, 0);
  };

  std::string line;
  while (std::getline(std::cin, line))
  {
    std::istringstream words(line);
    std::string word;
    int walks = 0;
    words >> word >> walks;
    begin();
    if (word == "go" && constraints.empty())
    {
      times("inverse dynamics/computeRNEADerivatives", walks, states, inverse);
      times("forward dynamics/computeABADerivatives", walks, states, forward);
    }
    else if (word == "go")
    {
      const Settings once(0.0, 1e-10, 1), thrice(0.0, 1e-6, 3);
      times("constrained dynamics/1 iteration", walks, states, [&](const State & s) { constrained(s, once); });
      times("constrained dynamics/3 iterations", walks, states, [&](const State & s) { constrained(s, thrice); });
    }
    else if (word == "check" && constraints.empty())
    {
      inverse(states[0]);
      matrix("inverse dynamics, by q", data.dtau_dq);
      matrix("inverse dynamics, by v", data.dtau_dv);
      forward(states[0]);
      matrix("forward dynamics, by q", data.ddq_dq);
      matrix("forward dynamics, by v", data.ddq_dv);
    }
    else if (word == "check")
    {
      constrained(states[0], Settings(1e-14, 1e-10, 300));
      matrix("constrained dynamics, by q", held.ddq_dq);
      matrix("constrained dynamics, by v", held.ddq_dv);
      matrix("constrained dynamics, by tau", held.ddq_dtau);
    }
    end();
  }
  return sink == 0.123456789; // keeps the results needed
}
