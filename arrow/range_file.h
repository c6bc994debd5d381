// A file that Weir reads by ranges (table_plugin.h).
#ifndef WEIR_RANGE_FILE_H
#define WEIR_RANGE_FILE_H

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

extern "C" {
#include "worker/data/format/table_plugin.h"
}

class RangeFile : public arrow::io::RandomAccessFile
{
  public:
	explicit RangeFile(const table_source &source) : source_(source) {}
	/// Waits for reads that are under way; later ones fail. Arrow reads ahead in threads of its own.
	void Detach()
	{
		const std::unique_lock<std::shared_mutex> alone(lock_);
		detached_ = true;
	}
	arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void *out) override
	{
		char why[TABLE_PLUGIN_WHY_BYTES] = "";
		const std::shared_lock<std::shared_mutex> shared(lock_);
		if (detached_)
			return arrow::Status::IOError("the file is closed");
		bytes = std::clamp<int64_t>(source_.bytes - position, 0, bytes);
		if (bytes > 0 && !source_.read(source_.context, position, out, bytes, why))
			return arrow::Status::IOError(why);
		return bytes;
	}
	arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override
	{
		ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(bytes));
		ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, bytes, buffer->mutable_data()));
		ARROW_RETURN_NOT_OK(buffer->Resize(got));
		return std::shared_ptr<arrow::Buffer>(std::move(buffer));
	}
	arrow::Result<int64_t> Read(int64_t bytes, void *out) override
	{
		ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(at_, bytes, out));
		at_ += got;
		return got;
	}
	arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override
	{
		ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(at_, bytes));
		at_ += buffer->size();
		return buffer;
	}
	arrow::Result<int64_t> GetSize() override { return source_.bytes; }
	arrow::Result<int64_t> Tell() const override { return at_; }
	arrow::Status Seek(int64_t position) override
	{
		at_ = position;
		return arrow::Status::OK();
	}
	arrow::Status Close() override
	{
		closed_ = true;
		return arrow::Status::OK();
	}
	bool closed() const override { return closed_; }

  private:
	table_source source_;
	std::shared_mutex lock_; // shared by reads
	bool detached_ = false;
	int64_t at_ = 0;
	bool closed_ = false;
};

#endif
