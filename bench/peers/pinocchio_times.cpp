// Times of Pinocchio's dynamics from C++, as a server: see servers.py.
//
//   pinocchio_times MODEL STATES
//
// Lines read: "go N" times N walks over all states per algorithm, "check" gives the results of the first state.

#include "pinocchio_shared.hpp"

#include "pinocchio/algorithm/aba.hpp"
#include "pinocchio/algorithm/cholesky.hpp"
#include "pinocchio/algorithm/crba.hpp"
#include "pinocchio/algorithm/rnea.hpp"

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
    begin();
    if (word == "go")
    {
      times("inverse dynamics/rnea", walks, states, rnea);
      times("mass matrix/crba, local", walks, states, [&](const State & s) { crba(s, local); });
      times("mass matrix/crba, world", walks, states, [&](const State & s) { crba(s, world); });
      times("full mass matrix/crba, local", walks, states, [&](const State & s) { whole(s, local); });
      times("full mass matrix/crba, world", walks, states, [&](const State & s) { whole(s, world); });
      times("forward dynamics/aba, local", walks, states, [&](const State & s) { aba(s, local); });
      times("forward dynamics/aba, world", walks, states, [&](const State & s) { aba(s, world); });
      times("forward dynamics/factorised", walks, states, [&](const State & s) { factorised(s, local); });
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
      list("forward dynamics/factorised", x.data(), model.nv);
    }
    end();
  }
  return sink == 0.123456789; // keeps the results needed
}
