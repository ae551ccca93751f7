// The back-end "tandem" of torch.distributed: a c10d::Backend over Tandem's C interface. Compiled
// where PyTorch is installed, by glue.py, since PyTorch's C++ interface differs from version to
// version; tandem.h does not. One translation unit, because PyTorch's headers take ten seconds.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "exchanges.hpp"
#include "messages.hpp"
#include "reductions.hpp"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace py = pybind11;
  using namespace tandem::torch_backend;
  tandem_log_to_stderr();
  using release_gil = py::call_guard<py::gil_scoped_release>;
  py::class_<backend, c10::intrusive_ptr<backend>, c10d::Backend>(m, "Backend")
      .def("create_group", &backend::create_group, py::arg("ranks"), py::arg("name"),
           py::arg("timeout"), release_gil())
      .def("describe", &backend::describe)
      .def("_set_default_timeout", &backend::setTimeout)
      .def("perform_nocolor_split", [](backend&, const at::Device&) {});
  m.def(
      "create_job",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, milliseconds timeout,
         const std::string& name, bool is_world, const std::string& shown_name, int gpu,
         std::vector<std::int64_t> global_ranks) {
        auto of = std::make_shared<job>(store, rank, size, timeout, name, gpu);
        auto made = c10::make_intrusive<backend>(std::move(of), timeout, shown_name);
        made->set_global_ranks(std::move(global_ranks));
        groups::all().add(made, is_world);
        return made;
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name"),
      py::arg("is_world"), py::arg("shown_name"), py::arg("gpu"), py::arg("global_ranks"),
      release_gil());
  m.def(
      "dump_flight_recorder",
      [](const std::string& path) { return flight_recorder::all().write(path); }, py::arg("path"),
      release_gil());
  m.def("world", [] { return groups::all().world(); });
  m.def(
      "leave_all", [] { groups::all().leave(); }, release_gil());
  m.attr("abi_version") = TANDEM_ABI_VERSION;
  m.attr("library_abi_version") = tandem_abi_version();
  m.attr("version") = tandem_version();
}
