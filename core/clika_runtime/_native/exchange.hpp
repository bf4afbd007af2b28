// DLPack, the exchange protocol of array libraries (version 1.0 and the form before it), by its published layout.
#pragma once

#include "tensor.hpp"

namespace clika {

struct DLDevice {
  int32_t type;
  int32_t index;
};
struct DLType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLArray {
  void* data;
  DLDevice device;
  int32_t rank;
  DLType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};
struct DLManaged {  // capsule "dltensor"
  DLArray array;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLVersioned {  // capsule "dltensor_versioned"
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(DLVersioned*);
  uint64_t flags;
  DLArray array;
};
constexpr uint64_t kDLReadOnly = 1;
constexpr uint64_t kDLCopied = 2;

// A tensor on its way out: it keeps the storage until the receiver calls the deleter, on any thread.
template <class Managed>
struct Outgoing : Managed {
  int64_t sizes[CLIKA_MAX_RANK];
  int64_t steps[CLIKA_MAX_RANK];
  Storage* storage;
  int32_t number;      // of the device
  void* reader;        // on a device: the stream that the receiver reads on

  Outgoing(const TensorRecord& record, DLDevice device, DLType dtype, void* stream)
      : Managed{}, storage(record.storage), number(record.device), reader(stream) {
    for (int32_t i = 0; i < record.rank; ++i) {
      sizes[i] = record.shape[i];
      steps[i] = record.strides[i];
    }
    storage->retain();
    this->array = {record.data(), device, record.rank, dtype, sizes, steps, 0};
    this->context = this;
    this->deleter = [](Managed* self) {
      auto* own = static_cast<Outgoing*>(self->context);
      own->join_reader();
      own->storage->drop();
      delete own;
    };
  }

  // Whatever gets the memory next comes after what the receiver has under way.
  void join_reader() {
    const Backend* backend = device_backend_of(number);
    if (backend == nullptr || reader == nullptr) return;
    ErrorPtr error;
    clika_stream ours = device_stream(number, &error);
    if (ours == nullptr || !backend->has(offsetof(clika_backend, stream_join), &clika_backend::stream_join)) return;
    backend->table->stream_join(ours, reader, 1);
  }
};

inline DLManaged* export_managed(const TensorRecord& record, DLDevice device, DLType dtype, void* reader) {
  return new Outgoing<DLManaged>(record, device, dtype, reader);
}
inline DLVersioned* export_versioned(const TensorRecord& record, DLDevice device, DLType dtype, bool copied,
                                     void* reader) {
  auto* made = new Outgoing<DLVersioned>(record, device, dtype, reader);
  made->major = 1;
  made->minor = 0;
  made->flags = (record.storage->writable() ? 0 : kDLReadOnly) | (copied ? kDLCopied : 0);
  return made;
}

}  // namespace clika
