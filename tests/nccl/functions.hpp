#pragma once

#include "abi.hpp"

/// The exported functions that the tests call, as nccl.h declares them.
namespace nccl_abi = tandem::nccl_abi;

extern "C" {

nccl_abi::result ncclGetVersion(int* into);
nccl_abi::result ncclGetUniqueId(nccl_abi::unique_id* into);
nccl_abi::result ncclCommInitRank(nccl_abi::comm* into, int ranks, nccl_abi::unique_id id,
                                  int rank);
nccl_abi::result ncclCommInitRankConfig(nccl_abi::comm* into, int ranks, nccl_abi::unique_id id,
                                        int rank, nccl_abi::config* how);
nccl_abi::result ncclCommInitRankScalable(nccl_abi::comm* into, int ranks, int rank, int id_count,
                                          nccl_abi::unique_id* ids, nccl_abi::config* how);
nccl_abi::result ncclCommInitAll(nccl_abi::comm* into, int count, const int* devices);
nccl_abi::result ncclCommSplit(nccl_abi::comm of, int color, int key, nccl_abi::comm* into,
                               nccl_abi::config* how);
nccl_abi::result ncclCommShrink(nccl_abi::comm of, int* left_out, int count, nccl_abi::comm* into,
                                nccl_abi::config* how, int flags);
nccl_abi::result ncclCommFinalize(nccl_abi::comm of);
nccl_abi::result ncclCommDestroy(nccl_abi::comm of);
nccl_abi::result ncclCommAbort(nccl_abi::comm of);
nccl_abi::result ncclCommGetAsyncError(nccl_abi::comm of, nccl_abi::result* into);
nccl_abi::result ncclCommCount(nccl_abi::comm of, int* into);
nccl_abi::result ncclCommUserRank(nccl_abi::comm of, int* into);
nccl_abi::result ncclCommCuDevice(nccl_abi::comm of, int* into);
const char* ncclGetErrorString(nccl_abi::result of);
const char* ncclGetLastError(nccl_abi::comm of);
nccl_abi::result ncclGroupStart();
nccl_abi::result ncclGroupEnd();
nccl_abi::result ncclRedOpCreatePreMulSum(int* into, void* factor, int type, int where,
                                          nccl_abi::comm of);
nccl_abi::result ncclRedOpDestroy(int op, nccl_abi::comm of);
nccl_abi::result ncclMemAlloc(void** into, std::size_t bytes);
nccl_abi::result ncclMemFree(void* which);
nccl_abi::result ncclCommRegister(nccl_abi::comm of, void* from, std::size_t bytes, void** into);
nccl_abi::result ncclCommDeregister(nccl_abi::comm of, void* handle);
nccl_abi::result ncclCommWindowRegister(nccl_abi::comm of, void* from, std::size_t bytes,
                                        nccl_abi::window* into, int flags);
nccl_abi::result ncclCommGrow();
nccl_abi::result ncclAllReduce(const void* from, void* into, std::size_t count, int type, int op,
                               nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result pncclAllReduce(const void* from, void* into, std::size_t count, int type, int op,
                                nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclReduce(const void* from, void* into, std::size_t count, int type, int op,
                            int root, nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclBroadcast(const void* from, void* into, std::size_t count, int type, int root,
                               nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclBcast(void* data, std::size_t count, int type, int root, nccl_abi::comm over,
                           nccl_abi::stream on);
nccl_abi::result ncclAllGather(const void* from, void* into, std::size_t count, int type,
                               nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclReduceScatter(const void* from, void* into, std::size_t count, int type,
                                   int op, nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclSend(const void* from, std::size_t count, int type, int to,
                          nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclRecv(void* into, std::size_t count, int type, int from, nccl_abi::comm over,
                          nccl_abi::stream on);
nccl_abi::result ncclGather(const void* from, void* into, std::size_t count, int type, int root,
                            nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclScatter(const void* from, void* into, std::size_t count, int type, int root,
                             nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclAlltoAll(const void* from, void* into, std::size_t count, int type,
                              nccl_abi::comm over, nccl_abi::stream on);
nccl_abi::result ncclAllToAllv(const void* from, const std::size_t* sent,
                               const std::size_t* send_at, void* into, const std::size_t* received,
                               const std::size_t* receive_at, int type, nccl_abi::comm over,
                               nccl_abi::stream on);
}
