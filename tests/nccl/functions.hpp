#pragma once

#include "abi.hpp"

/// The exported functions that the tests call, as nccl.h declares them.
extern "C" {
namespace nccl = tandem::nccl_abi;

nccl::result ncclGetVersion(int* into);
nccl::result ncclGetUniqueId(nccl::unique_id* into);
nccl::result ncclCommInitRank(nccl::comm* into, int ranks, nccl::unique_id id, int rank);
nccl::result ncclCommInitRankConfig(nccl::comm* into, int ranks, nccl::unique_id id, int rank,
                                    nccl::config* how);
nccl::result ncclCommInitRankScalable(nccl::comm* into, int ranks, int rank, int id_count,
                                      nccl::unique_id* ids, nccl::config* how);
nccl::result ncclCommInitAll(nccl::comm* into, int count, const int* devices);
nccl::result ncclCommSplit(nccl::comm of, int color, int key, nccl::comm* into, nccl::config* how);
nccl::result ncclCommShrink(nccl::comm of, int* left_out, int count, nccl::comm* into,
                            nccl::config* how, int flags);
nccl::result ncclCommFinalize(nccl::comm of);
nccl::result ncclCommDestroy(nccl::comm of);
nccl::result ncclCommAbort(nccl::comm of);
nccl::result ncclCommGetAsyncError(nccl::comm of, nccl::result* into);
nccl::result ncclCommCount(nccl::comm of, int* into);
nccl::result ncclCommUserRank(nccl::comm of, int* into);
nccl::result ncclCommCuDevice(nccl::comm of, int* into);
const char* ncclGetErrorString(nccl::result of);
const char* ncclGetLastError(nccl::comm of);
nccl::result ncclGroupStart();
nccl::result ncclGroupEnd();
nccl::result ncclRedOpCreatePreMulSum(int* into, void* factor, int type, int where, nccl::comm of);
nccl::result ncclRedOpDestroy(int op, nccl::comm of);
nccl::result ncclMemAlloc(void** into, std::size_t bytes);
nccl::result ncclMemFree(void* which);
nccl::result ncclCommRegister(nccl::comm of, void* from, std::size_t bytes, void** into);
nccl::result ncclCommDeregister(nccl::comm of, void* handle);
nccl::result ncclCommWindowRegister(nccl::comm of, void* from, std::size_t bytes,
                                    nccl::window* into, int flags);
nccl::result ncclCommGrow();
nccl::result ncclAllReduce(const void* from, void* into, std::size_t count, int type, int op,
                           nccl::comm over, nccl::stream on);
nccl::result pncclAllReduce(const void* from, void* into, std::size_t count, int type, int op,
                            nccl::comm over, nccl::stream on);
nccl::result ncclReduce(const void* from, void* into, std::size_t count, int type, int op, int root,
                        nccl::comm over, nccl::stream on);
nccl::result ncclBroadcast(const void* from, void* into, std::size_t count, int type, int root,
                           nccl::comm over, nccl::stream on);
nccl::result ncclBcast(void* data, std::size_t count, int type, int root, nccl::comm over,
                       nccl::stream on);
nccl::result ncclAllGather(const void* from, void* into, std::size_t count, int type,
                           nccl::comm over, nccl::stream on);
nccl::result ncclReduceScatter(const void* from, void* into, std::size_t count, int type, int op,
                               nccl::comm over, nccl::stream on);
nccl::result ncclSend(const void* from, std::size_t count, int type, int to, nccl::comm over,
                      nccl::stream on);
nccl::result ncclRecv(void* into, std::size_t count, int type, int from, nccl::comm over,
                      nccl::stream on);
nccl::result ncclGather(const void* from, void* into, std::size_t count, int type, int root,
                        nccl::comm over, nccl::stream on);
nccl::result ncclScatter(const void* from, void* into, std::size_t count, int type, int root,
                         nccl::comm over, nccl::stream on);
nccl::result ncclAlltoAll(const void* from, void* into, std::size_t count, int type,
                          nccl::comm over, nccl::stream on);
nccl::result ncclAllToAllv(const void* from, const std::size_t* sent, const std::size_t* send_at,
                           void* into, const std::size_t* received, const std::size_t* receive_at,
                           int type, nccl::comm over, nccl::stream on);
}
