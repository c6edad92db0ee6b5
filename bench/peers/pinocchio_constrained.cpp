// Times of Pinocchio's constrained dynamics and Delassus matrices from C++, as a server: see constrained.py.
//
//   pinocchio_constrained MODEL STATES CONSTRAINTS
//
// Lines read:
//   "dynamics N MU TOLERANCE ITERATIONS"   times N walks over all states per solver
//   "matrices N MU"                        times N walks over all states per matrix
//   "check STATE MU TOLERANCE ITERATIONS"  the results of one state

#include "pinocchio_rigid.hpp"

#include "pinocchio/algorithm/cholesky.hpp"
#include "pinocchio/algorithm/constrained-dynamics.hpp"
#include "pinocchio/algorithm/constraint-cholesky.hpp"
#include "pinocchio/algorithm/crba.hpp"
#include "pinocchio/algorithm/delassus.hpp"
#include "pinocchio/algorithm/loop-constrained-aba.hpp"
#include "pinocchio/algorithm/proximal.hpp"
#include "pinocchio/algorithm/pv.hpp"

// A constraint to the world as pv and constrainedABA read it. They take constraints of one size alone, known when compiled.
// Rows = 0 stands for a mixture: all are given as points, whose term of acceleration w x v is taken away again for frames.
template<int Rows>
struct Contact
{
  typedef pin::SE3 SE3;
  typedef Rigid::BaumgarteCorrectorParameters BaumgarteCorrectorParameters;
  static constexpr int Size = Rows == 6 ? 6 : 3;
  pin::JointIndex joint1_id;
  SE3 joint1_placement;
  int rows;
  BaumgarteCorrectorParameters none;
  int residualSize() const
  {
    return Rows ? Rows : rows;
  }
  const BaumgarteCorrectorParameters & baumgarte_corrector_parameters() const
  {
    return none;
  }
};

struct Correction : Eigen::Vector3d
{
  const Contact<0> * contact;
  const Data * data;
  void setZero()
  {
    Eigen::Vector3d::setZero();
    if (contact->rows == 6)
    {
      const pin::Motion v = contact->joint1_placement.actInv(data->v[contact->joint1_id]);
      Eigen::Vector3d::operator=(v.angular().cross(v.linear()));
    }
  }
};

template<int Rows>
struct ContactData
{
  Eigen::Matrix<double, Rows, 1> constraint_acceleration_error;
  ContactData(const Contact<Rows> &, const Data &) {}
};

template<>
struct ContactData<0>
{
  Correction constraint_acceleration_error;
  ContactData(const Contact<0> & contact, const Data & data)
  {
    constraint_acceleration_error.contact = &contact;
    constraint_acceleration_error.data = &data;
  }
};

// One solver: calls, and the forces on the constrained frames after a call that ended by its number of iterations.
struct Solver
{
  const Model & model;
  Data data;
  explicit Solver(const Model & model) : model(model), data(model) {}
  virtual ~Solver() = default;
  virtual const char * name() const = 0;
  virtual bool knows_tolerance() const
  {
    return true;
  }
  virtual void call(const State & s, Settings & settings) = 0;
  virtual Vector forces(const Settings & settings) const = 0;
};

struct ConstraintDynamics : Solver
{
  const Rigids & constraints;
  RigidDatas datas;
  ConstraintDynamics(const Model & model, const Rigids & constraints) : Solver(model), constraints(constraints)
  {
    for (const Rigid & c : constraints)
      datas.emplace_back(c.createData());
    pin::initConstraintDynamics(model, data, constraints, datas);
  }
  const char * name() const override
  {
    return "constraintDynamics";
  }
  void call(const State & s, Settings & settings) override
  {
    sink += pin::constraintDynamics(model, data, s.q, s.v, s.tau, constraints, datas, settings)[0];
  }
  Vector forces(const Settings &) const override
  {
    return data.lambda_c;
  }
};

template<int Rows>
struct Contacts : Solver
{
  std::vector<Contact<Rows>> contacts;
  std::vector<ContactData<Rows>> datas;
  Contacts(const Model & model, const Rigids & constraints) : Solver(model)
  {
    for (const Rigid & c : constraints)
      contacts.push_back(Contact<Rows>{c.joint1_id, c.joint1_placement, c.residualSize(), {}});
    for (const Contact<Rows> & c : contacts)
      datas.emplace_back(c, data);
    pin::initPvSolver(model, data, contacts);
  }
};

template<int Rows>
struct Pv : Contacts<Rows>
{
  using Contacts<Rows>::Contacts;
  const char * name() const override
  {
    return "pv";
  }
  void call(const State & s, Settings & settings) override
  {
    sink += pin::pv(this->model, this->data, s.q, s.v, s.tau, this->contacts, this->datas, settings)[0];
  }
  // There the rows are ordered by the tree: each joint's own first, then those of its children, the last child's first.
  Vector forces(const Settings &) const override
  {
    std::vector<Eigen::Index> used(this->model.njoints, 0), start(this->model.njoints, 0);
    for (size_t i = 1; i < size_t(this->model.njoints); ++i)
      start[i] = start[this->model.parents[i]] + this->data.par_cons_ind[i];
    Vector out(this->data.lambdaA[0].size());
    Eigen::Index row = 0;
    for (const Contact<Rows> & c : this->contacts)
    {
      const Eigen::Index n = c.residualSize();
      out.segment(row, n) = -this->data.lambdaA[0].segment(start[c.joint1_id] + used[c.joint1_id], n);
      used[c.joint1_id] += n;
      row += n;
    }
    return out;
  }
};

template<int Rows>
struct ConstrainedABA : Contacts<Rows>
{
  using Contacts<Rows>::Contacts;
  const char * name() const override
  {
    return "constrainedABA";
  }
  void call(const State & s, Settings & settings) override
  {
    this->data.lambdaA[0].setZero(); // it is only added to
    sink += pin::constrainedABA(this->model, this->data, s.q, s.v, s.tau, this->contacts, this->datas, settings)[0];
  }
  Vector forces(const Settings & settings) const override // the last residual is not added there
  {
    return -this->data.lambdaA[0] - this->data.lambda_c_prox / settings.mu;
  }
};

struct LoopConstrainedABA : Solver
{
  const Rigids & constraints;
  RigidDatas datas;
  LoopConstrainedABA(const Model & model, const Rigids & constraints) : Solver(model), constraints(constraints)
  {
    for (const Rigid & c : constraints)
      datas.emplace_back(c.createData());
    pin::computeJointMinimalOrdering(model, data, constraints);
  }
  const char * name() const override
  {
    return "lcaba";
  }
  void call(const State & s, Settings & settings) override
  {
    for (const Rigid & c : constraints) // 6D constraints take the last call's accelerations for drift
    {
      data.oa[c.joint1_id].setZero();
      data.oa[c.joint2_id].setZero();
    }
    sink += pin::lcaba(model, data, s.q, s.v, s.tau, constraints, datas, settings)[0];
  }
  Vector forces(const Settings & settings) const override // the last residual is not added there
  {
    std::vector<double> out;
    for (size_t i = 0; i < constraints.size(); ++i)
    {
      const Rigid & c = constraints[i];
      const RigidData & d = datas[i];
      const bool point = c.type == pin::CONTACT_3D, world = c.joint2_id == 0;
      pin::Motion error = d.oMc1.actInv(data.oa[c.joint1_id]) - d.contact_acceleration_desired;
      if (!world && point)
        error.linear() -= d.c1Mc2.rotation() * d.oMc2.actInv(data.oa[c.joint2_id]).linear();
      else if (!world)
        error -= d.oMc1.actInv(data.oa[c.joint2_id]);
      const Eigen::Matrix<double, 6, 1> f = -d.contact_force.toVector() - error.toVector() / settings.mu;
      out.insert(out.end(), f.data(), f.data() + c.residualSize());
    }
    return Eigen::Map<Vector>(out.data(), Eigen::Index(out.size()));
  }
};

// The paper's LTLs: it is there, though called untested, and gives no forces.
struct ProxLTLs : Solver
{
  const Rigids & constraints;
  RigidDatas datas;
  ProxLTLs(const Model & model, const Rigids & constraints) : Solver(model), constraints(constraints)
  {
    for (const Rigid & c : constraints)
      datas.emplace_back(c.createData());
    pin::computeJointMinimalOrdering(model, data, constraints); // says which joints carry constraints
    data.M.setZero();
  }
  const char * name() const override
  {
    return "proxLTLs";
  }
  bool knows_tolerance() const override
  {
    return false;
  }
  void call(const State & s, Settings & settings) override
  {
    Settings inverse(0, 1 / settings.mu, settings.max_iter);
    sink += pin::proxLTLs(model, data, s.q, s.v, s.tau, constraints, datas, inverse)[0];
  }
  Vector forces(const Settings &) const override
  {
    return Vector();
  }
};

// The ways to the Delassus matrix J inv(M) J' and to inv(J inv(M) J' + mu 1); only the upper triangle counts.
struct Matrices
{
  const Model & model;
  const Rigids & constraints;
  const bool to_world;
  Data plain, efpa, pv;
  RigidDatas datas, efpa_datas, pv_datas;
  Eigen::MatrixXd out;

  Matrices(const Model & model, const Rigids & constraints, bool to_world)
  : model(model), constraints(constraints), to_world(to_world), plain(model), efpa(model), pv(model)
  {
    for (const Rigid & c : constraints)
      for (RigidDatas * d : {&datas, &efpa_datas, &pv_datas})
        d->emplace_back(c.createData());
    pin::initConstraintDynamics(model, plain, constraints, datas);
    if (to_world)
      pin::initPvDelassus(model, pv, constraints);
    const Eigen::Index m = plain.constraint_chol.constraintDim();
    out.setZero(m, m);
  }

  void factorise(const State & s, double mu)
  {
    pin::crba(model, plain, s.q, pin::Convention::WORLD);
    pin::calc(model, plain, constraints, datas);
    plain.constraint_chol.compute(model, plain, constraints, datas, mu);
  }

  template<typename Use> // use(name, call)
  void each(double mu, Use use)
  {
    use("Delassus matrix/Cholesky", [this](const State & s) {
      factorise(s, 0);
      plain.constraint_chol.getInverseOperationalSpaceInertiaMatrix(out);
      sink += out(0, 0);
    });
    use("damped inverse/Cholesky", [this, mu](const State & s) {
      factorise(s, mu);
      plain.constraint_chol.getOperationalSpaceInertiaMatrix(out);
      sink += out(0, 0);
    });
    if (!to_world)
      return; // the others know only constraints to the world
    use("Delassus matrix/EFPA", [this](const State & s) {
      pin::computeDelassusMatrix(model, efpa, s.q, constraints, efpa_datas, out);
      sink += out(0, 0);
    });
    use("Delassus matrix/PV-OSIMr", [this](const State & s) {
      pin::computePvDelassusMatrix(model, pv, s.q, constraints, pv_datas, out, 0.0);
      sink += out(0, 0);
    });
    use("damped inverse/EFPA", [this, mu](const State & s) {
      pin::computeDampedDelassusMatrixInverse(model, efpa, s.q, constraints, efpa_datas, out, mu, false, false);
      sink += out(0, 0);
    });
    use("damped inverse/cABA-OSIM", [this, mu](const State & s) {
      pin::computeDampedDelassusMatrixInverse(model, pv, s.q, constraints, pv_datas, out, mu, false, true);
      sink += out(0, 0);
    });
  }
};

template<int Rows>
static void add_contacts(std::vector<std::unique_ptr<Solver>> & solvers, const Model & model, const Rigids & constraints)
{
  solvers.emplace_back(new ConstrainedABA<Rows>(model, constraints));
  solvers.emplace_back(new Pv<Rows>(model, constraints));
}

int main(int argc, char ** argv)
{
  if (argc != 4)
  {
    std::fprintf(stderr, "pinocchio_constrained MODEL STATES CONSTRAINTS\n");
    return 2;
  }
  const Model model = read_model(argv[1]);
  const std::vector<State> states = read_states(argv[2], model);
  const Rigids constraints = read_constraints(argv[3], model);
  bool to_world = true, points = false, frames = false;
  for (const Rigid & c : constraints)
  {
    to_world = to_world && c.joint2_id == 0;
    (c.type == pin::CONTACT_6D ? frames : points) = true;
  }
  std::vector<std::unique_ptr<Solver>> solvers;
  solvers.emplace_back(new ConstraintDynamics(model, constraints));
  solvers.emplace_back(new LoopConstrainedABA(model, constraints));
  if (to_world)
    solvers.emplace_back(new ProxLTLs(model, constraints));
  if (to_world && points && frames)
    add_contacts<0>(solvers, model, constraints);
  else if (to_world && points)
    add_contacts<3>(solvers, model, constraints);
  else if (to_world)
    add_contacts<6>(solvers, model, constraints);
  Matrices matrices(model, constraints, to_world);

  std::string line;
  while (std::getline(std::cin, line))
  {
    std::istringstream words(line);
    std::string word;
    size_t number = 0; // of walks, or of the state
    double mu = 1e-6, tolerance = 0;
    int iterations = 1;
    words >> word >> number >> mu >> tolerance >> iterations;
    Settings settings(tolerance, mu, iterations);
    begin();
    if (word == "dynamics")
    {
      for (auto & solver : solvers)
        if (tolerance == 0 || solver->knows_tolerance())
          times(std::string("constrained dynamics/") + solver->name(), int(number), states, [&](const State & s) {
            solver->call(s, settings);
          });
    }
    else if (word == "matrices")
      matrices.each(mu, [&](const char * name, auto call) { times(name, int(number), states, call); });
    else if (word == "check")
    {
      const State & s = states.at(number);
      for (auto & solver : solvers)
      {
        solver->call(s, settings);
        list(std::string("acceleration/") + solver->name(), solver->data.ddq.data(), model.nv);
        const Vector f = solver->forces(settings);
        if (f.size())
          list(std::string("force/") + solver->name(), f.data(), f.size());
      }
      matrices.each(mu, [&](const char * name, auto call) {
        call(s);
        const Eigen::MatrixXd full = matrices.out.selfadjointView<Eigen::Upper>();
        list(name, full.data(), full.size());
      });
    }
    end();
  }
  return sink == 0.123456789; // keeps the results needed
}
